"""Goal: two pods, wired as a runtime wires them, use SMC-R without changes to their applications. Method:
for each pod the test calls the bridge plugin and then fairlead-cni by the CNI protocol. Each pod has a real
sidecar without any privilege. redis-server runs in one, redis-benchmark in the other. The sidecars' admin
interfaces show the transport of the connections."""
import subprocess

import plugin
import wired
from wired import harness


class Pods(wired.WiredTest):
    def talk(self, ipv6):
        server, client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        inbound, outbound = self.sidecar(server, "server"), self.sidecar(client, "client")
        self.redis(server)
        address = server.address(ipv6)
        self.benchmark(client, address)
        for proxy in (inbound, outbound):
            metrics = proxy.metrics()
            self.assertEqual(metrics.fallbacks(), {}, proxy.name)
            self.assertGreaterEqual(metrics.connections("smcr"), 8, proxy.name)
            self.assertEqual(metrics.connections("tcp"), 0, proxy.name)
        decision = outbound.get_json("/why")["decisions"][0]
        self.assertEqual(decision["peer"], harness.join((address, 6379)))
        print(f"redis-benchmark: {outbound.smcr_connections():.0f} connections, all SMC-R")
        for pod in (server, client):
            self.good("CHECK", pod, plugin.IN, cniVersion="1.0.0")

    def test_redis_between_pods_is_smcr(self):
        self.talk(ipv6=False)

    def test_redis_over_ipv6_is_smcr(self):
        self.talk(ipv6=True)

    def test_sidecars_that_the_plugin_finds_running(self):
        """As after a repair: they start without option program, and use it once it is attached."""
        pods = [self.wired_pod({"app": "web"}), self.wired_pod({"app": "web"})]
        proxies = [self.sidecar(pod, name) for pod, name in zip(pods, ("server", "client"))]
        self.redis(pods[0])
        self.assertTrue(self.ping(pods[1], pods[0].address()))
        for pod in pods:
            self.good("ADD", pod, plugin.IN, cniVersion="1.0.0")
        harness.wait_until(lambda: self.ping(pods[1], pods[0].address()) and proxies[1].smcr_connections() > 0,
                           "a connection over SMC-R", 20)
        self.assertGreater(proxies[0].smcr_connections(), 0)

    def test_sidecars_that_outlive_an_installation(self):
        """The option program is removed with an installation, and the next installation attaches a new one."""
        pods = [self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)]
        proxies = [self.sidecar(pod, name) for pod, name in zip(pods, ("server", "client"))]
        self.redis(pods[0])
        for pod in pods:
            self.good("DEL", pod, cniVersion="1.0.0")
        for proxy in proxies:
            harness.wait_until(lambda proxy=proxy: "event=no_option_program" in proxy.log(), "its end to be noticed", 20)
        self.assertTrue(self.ping(pods[1], pods[0].address()))
        for pod in pods:
            self.good("ADD", pod, plugin.IN, cniVersion="1.0.0")
        harness.wait_until(lambda: self.ping(pods[1], pods[0].address()) and proxies[1].smcr_connections() > 0,
                           "a connection over SMC-R", 20)

    def test_excluded_port_is_plain_tcp(self):
        server = self.wired_pod(plugin.IN)
        client = self.wired_pod({**plugin.IN, "fairlead.io/skip-outbound-ports": "6379"})
        proxies = [self.sidecar(server, "server"), self.sidecar(client, "client")]
        self.redis(server)
        self.assertTrue(self.ping(client, server.address()))
        for proxy in proxies:
            self.assertEqual(proxy.smcr_connections(), 0, proxy.name)

    def test_stranger_reaches_the_application_with_its_own_address(self):
        """A pod without sidecar, and a probe from the node, are not redirected."""
        server, stranger = self.wired_pod(plugin.IN), self.wired_pod({"app": "web"})
        inbound = self.sidecar(server, "server")
        self.redis(server)
        holder = subprocess.Popen(stranger.command("redis-cli", "-h", server.address()),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holder.stdin.write("PING\n")
        holder.stdin.flush()
        self.assertEqual(holder.stdout.readline().strip(), "PONG")
        clients = subprocess.run(server.command("redis-cli", "CLIENT", "LIST"), capture_output=True,
                                 text=True, check=True, timeout=60).stdout
        holder.communicate()
        self.assertIn(f"addr={stranger.address()}:", clients)
        self.assertEqual(inbound.get_json("/connections")["connections"], [])


if __name__ == "__main__":
    plugin.main()
