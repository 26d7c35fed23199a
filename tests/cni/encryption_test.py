"""Goal: the note of a pod has the destinations behind encryption below TCP from its first moment, and follows them.
Method: real IPsec policies and links in the namespaces of pods and of a node; the plugin and the agent run in the node's
namespace."""
import os
import subprocess
from pathlib import Path

from plugin import IN, PLUGIN, PluginTest, main, wait_until, with_rights_of_the_chart

NODE = Path(os.environ.get("FAIRLEAD_NODE", PLUGIN.with_name("fairlead-node")))
SECONDS_MAX = 20
POLICIES_OVER_THE_LIMIT = 2000  # of a pod, 256 KiB

ESP = ("tmpl", "src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "mode", "tunnel")


def ip(namespace, *words, check=True):
    return subprocess.run(["ip", "-n", namespace.name, *words], check=check, capture_output=True, text=True)


class Encryption(PluginTest):
    def setUp(self):
        super().setUp()
        self.node = self.pod(("192.0.2.1/24",), with_cgroup=False)

    def added(self, *addresses):
        pod = self.pod(addresses or ("10.88.0.5/24",))
        with self.node.namespace():
            self.add(pod)
        return pod

    def policy(self, verb, namespace, source, destination, *more):
        template = ESP if verb == "add" else ()
        ip(namespace, "xfrm", "policy", verb, "src", source, "dst", destination, *more, "dir", "out", *template)

    def test_add_tells_policies_of_node_and_pod(self):
        plain = self.added().alias()
        self.assertNotIn("crypt", plain)
        self.policy("add", self.node, "0.0.0.0/0", "10.99.0.0/16")
        self.policy("add", self.node, "172.31.0.0/16", "10.98.0.0/16")  # of others than this pod
        pod = self.pod()
        self.policy("add", pod, "10.88.0.0/24", "10.97.1.0/24")
        with self.node.namespace():
            self.add(pod)
            self.assertEqual(pod.alias(), plain + ";crypt=10.97.1.0/24,10.99.0.0/16")
            self.good("CHECK", pod, IN)
            self.good("DEL", pod)
        self.assertEqual(pod.alias(), "")

    def test_encrypted_tunnel_between_nodes_is_every_destination(self):
        ip(self.node, "link", "add", "tunnel0", "type", "vxlan", "id", "7", "dstport", "4789", "dev", "eth0")
        self.policy("add", self.node, "192.0.2.1/32", "192.0.2.2/32", "proto", "udp", "dport", "4789")
        self.assertTrue(self.added().alias().endswith(";crypt=all"))

    def encrypting_link(self, namespace, name, kind):
        made = ip(namespace, "link", "add", name, "type", *kind, check=False)
        if made.returncode != 0:
            self.skipTest(f"the kernel makes no link of type {kind[0]}: {made.stderr.strip()}")
        ip(namespace, "link", "set", name, "up")

    def test_routes_to_a_wireguard_link(self):
        self.encrypting_link(self.node, "wireguard.cali", ("wireguard",))
        ip(self.node, "route", "add", "10.244.7.0/24", "dev", "wireguard.cali", "table", "1")
        self.assertTrue(self.added().alias().endswith(";crypt=10.244.7.0/24"))

    def test_routes_to_an_ipsec_link(self):
        self.encrypting_link(self.node, "ipsec0", ("vti", "local", "192.0.2.1", "remote", "192.0.2.2", "key", "7"))
        ip(self.node, "route", "add", "10.244.7.0/24", "dev", "ipsec0")
        # The kernel may add a route for the link's own IPv6 network.
        self.assertRegex(self.added().alias(), r";crypt=10\.244\.7\.0/24(,fe80::/\d+)?$")

    def test_a_pod_with_more_policies_than_are_read_is_every_destination(self):
        pod = self.pod()
        with self.node.namespace():
            self.add(pod)
        self.assertNotIn("crypt", pod.alias())
        lines = "".join(f"xfrm policy add src 10.88.0.0/24 dst 10.99.{number // 250}.{number % 250}/32 dir out "
                        f"{' '.join(ESP)}\n" for number in range(POLICIES_OVER_THE_LIMIT))
        subprocess.run(["ip", "-n", pod.name, "-batch", "-"], input=lines, text=True, check=True)
        with self.node.namespace():
            self.good("DEL", pod)
            self.add(pod)
        self.assertTrue(pod.alias().endswith(";crypt=all"), pod.alias())

    def start_agent(self):
        (self.run_dir / "net.d").mkdir()
        log = self.run_dir / "agent.log"
        with open(log, "wb") as output, self.node.namespace():
            self.spawn(with_rights_of_the_chart(
                NODE, "run", "--conf-dir", self.run_dir / "net.d", "--bin-dir", self.run_dir / "bin", "--run-dir",
                self.run_dir, "--plugin", PLUGIN, "--check-interval", "0.5"), stdout=output, stderr=output)
        wait_until(lambda: " node event=ready" in log.read_text(), "the agent", SECONDS_MAX)
        return log

    def test_the_agent_follows_policies_of_node_and_pod(self):
        pod = self.added()
        plain = pod.alias()
        log = self.start_agent()
        for namespace, source, destination in ((self.node, "0.0.0.0/0", "10.99.0.0/16"),
                                               (pod, "10.88.0.0/24", "10.97.1.0/24")):
            self.policy("add", namespace, source, destination)
            wait_until(lambda words=f"{plain};crypt={destination}": pod.alias() == words, "the note", SECONDS_MAX)
            self.policy("delete", namespace, source, destination)
            wait_until(lambda: pod.alias() == plain, "the note without it", SECONDS_MAX)
        self.assertIn("event=encrypted_paths pod=default/web-0 paths=10.99.0.0/16", log.read_text())


if __name__ == "__main__":
    main()
