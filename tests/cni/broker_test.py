"""Goal: sidecars that share no directory reach each other's shared-memory device by the node's broker, also
after it fails or restarts. Method: pods wired by the CNI protocol with real, unprivileged sidecars, and
fairlead-node. Its metrics and the sidecars' admin interfaces show the results."""
import signal
import subprocess

import brokered
import plugin
from brokered import BY_BROKER
from wired import harness


class Broker(brokered.BrokerTest):
    def test_redis_between_pods_without_a_common_directory_is_smcr(self):
        server, client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.wait_node(2, "fairlead_node_broker_pods", state="open")
        inbound = self.sidecar(server, "server", BY_BROKER)
        outbound = self.sidecar(client, "client", BY_BROKER)
        self.redis(server)
        self.benchmark(client, server.address())
        self.assert_shm(inbound, outbound)
        self.assertEqual(self.node("fairlead_node_broker_devices"), 2)
        self.assertGreaterEqual(
            self.node("fairlead_node_broker_introductions_total", result="good"), 1)
        with self.client_that_stays(client, server.address()) as ask:
            ask()
            shown = self.ctl(client, outbound, "connections")
            self.assertIn("SMCR", shown)
            print(shown)
            print(self.ctl(client, outbound, "linkgroups"))

    def test_running_connections_outlive_the_broker_and_new_pairs_wait_for_the_next(self):
        server, client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        inbound = self.sidecar(server, "server", BY_BROKER)
        outbound = self.sidecar(client, "client", BY_BROKER)
        self.redis(server)
        with self.client_that_stays(client, server.address()) as ask:
            ask()
            # The broker creates all memory, so memory for the second benchmark exists before the broker stops.
            self.benchmark(client, server.address())
            self.agent.kill()
            self.agent.wait()
            ask()
            self.benchmark(client, server.address())  # over the existing link group
            self.assert_shm_while_memory_lasts(inbound, outbound)
            # A sidecar that starts without a broker has TCP.
            late = self.wired_pod(plugin.IN)
            late_proxy = self.sidecar(late, "late", BY_BROKER)
            self.assertTrue(self.ping(late, server.address()))
            self.assertEqual(late_proxy.smcr_connections(), 0)
            self.assertEqual(late_proxy.metrics().connections("tcp"), 1)
            self.assertEqual(self.devices(late_proxy), [])
            self.agent = self.start_agent()
            self.wait_node(3, "fairlead_node_broker_devices")
            harness.wait_until(lambda: self.devices(late_proxy) == ["shm0"], "the late device", 20)
            self.benchmark(late, server.address())
            self.assertGreaterEqual(late_proxy.smcr_connections(), 8)
            self.assertEqual(late_proxy.metrics().connections("tcp"), 1)
            ask()
        # Killed while bytes are in flight.
        running = subprocess.Popen(
            client.command_in_cgroup("redis-benchmark", "-h", server.address(), "-n",
                           str(harness.amount(100_000)), "-c", "8", "-t", "set", "--csv"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        before = outbound.smcr_connections()
        harness.wait_until(lambda: outbound.smcr_connections() >= before + 8, "the benchmark")
        self.agent.send_signal(signal.SIGKILL)
        self.agent.wait()
        self.agent = self.start_agent()
        output = running.communicate(timeout=harness.seconds(120))[0]
        self.assertEqual(running.returncode, 0, output)
        self.assertIn('"SET"', output)
        self.assert_shm_while_memory_lasts(outbound)

    def assert_shm_while_memory_lasts(self, *proxies):
        """Without a broker there is no new memory: a connection that finds none free uses TCP."""
        for proxy in proxies:
            metrics = proxy.metrics()
            self.assertLessEqual(set(metrics.fallbacks()), {("memory", "local"), ("memory", "peer")}, proxy.name)
            self.assertGreaterEqual(metrics.connections("smcr"), 8, proxy.name)


if __name__ == "__main__":
    plugin.main()
