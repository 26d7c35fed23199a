"""Goal: the application of a pod sees the client's address, with an unprivileged sidecar, also after restarts. Method:
pods wired by the CNI protocol with such sidecars, fairlead-node, and Redis, which reports a client's address to it."""
import re
import subprocess

import brokered
import plugin
from brokered import BY_BROKER
from wired import harness

OPTED_OUT = {**plugin.IN, "fairlead.io/client-address": "disabled"}


class ClientAddress(brokered.BrokerTest):
    def seen(self, client, host):
        """The address that Redis sees for a client of this pod."""
        done = subprocess.run(client.command_in_cgroup("redis-cli", "-h", host, "CLIENT", "INFO"),
                              capture_output=True, text=True, check=True, timeout=harness.seconds(60))
        return re.search(r"addr=(\S+):\d+ ", done.stdout).group(1).strip("[]")

    def check(self, proxy):
        checks = {check["name"]: check for check in proxy.get_json("/doctor")["checks"]}
        return checks["client_address"]

    def wait_check(self, proxy, status):
        harness.wait_until(lambda: self.check(proxy)["status"] == status,
                           f"client_address of {proxy.name} to be {status}", 30)

    def start_pods(self, annotations=None):
        self.server, self.client = self.wired_pod(annotations or plugin.IN), self.wired_pod(plugin.IN)
        self.inbound = self.sidecar(self.server, "server", BY_BROKER)
        self.outbound = self.sidecar(self.client, "client", BY_BROKER)
        self.redis(self.server)

    def assert_seen(self):
        for ipv6 in (False, True):
            self.assertEqual(self.seen(self.client, self.server.address(ipv6)), self.client.address(ipv6))

    def test_redis_sees_the_client_whatever_restarts(self):
        self.start_pods()
        self.assertEqual(self.state(self.server)["problems"], [])
        self.wait_check(self.inbound, "ok")
        self.assert_seen()
        # Another sidecar of the same pod gets the same map.
        self.inbound.terminate()
        self.inbound.wait_exit()
        self.inbound = self.sidecar(self.server, "server", BY_BROKER)
        self.wait_check(self.inbound, "ok")
        self.assert_seen()
        # The attached programs need no node side, and the next one disturbs nothing.
        self.agent.kill()
        self.agent.wait()
        self.assert_seen()
        self.agent = self.start_agent()
        self.assert_seen()
        # A sidecar that only the next node side learns of.
        self.agent.kill()
        self.agent.wait()
        self.inbound.terminate()
        self.inbound.wait_exit()
        self.inbound = self.sidecar(self.server, "server", BY_BROKER)
        self.assertEqual(self.check(self.inbound)["status"], "warn")
        self.assertEqual(self.seen(self.client, self.server.address()), self.server.address())
        self.agent = self.start_agent()
        self.wait_check(self.inbound, "ok")
        self.assert_seen()

    def test_programs_that_are_gone_are_noticed(self):
        self.start_pods()
        self.wait_check(self.inbound, "ok")
        for name in ("client_addr4", "client_addr6"):
            self.server.detach(name)
        self.wait_check(self.inbound, "warn")
        self.assertIn("no effect", self.check(self.inbound)["finding"])
        self.assertEqual(self.seen(self.client, self.server.address()), self.server.address())
        answer = self.bad(107, ["client-address"], "CHECK", self.server, cniVersion="1.0.0",
                          annotations=plugin.IN)
        self.assertIn("not attached", answer.json["msg"])

    def test_opted_out(self):
        self.start_pods(OPTED_OUT)
        self.assertEqual(self.server.programs(), sorted([*plugin.REDIRECT_PROGRAMS, "smc_mark", "smc_option"]))
        self.assertEqual(self.seen(self.client, self.server.address()), self.server.address())


if __name__ == "__main__":
    plugin.main()
