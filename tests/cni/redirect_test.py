"""Goal: what looks at packets in a pod finds nothing of the redirect, and what it leaves alone is as in a pod without
Fairlead. Method: pods wired by the CNI protocol with real sidecars; probes from the node; rules of the application in its
own pod. The programs of the pods are in their cgroups, as a runtime puts them."""
import contextlib
import errno
import os
import socket
import threading
import unittest
from pathlib import Path

import plugin
import wired
from wired import harness

SHORT_CONNECTIONS = 3000
PROBES = 5
TURNS = 200  # of a listener that comes and goes
CONNTRACK = Path("/proc/sys/net/netfilter/nf_conntrack_count")


def echo(listener):
    """Answers each connection with what it said first."""
    with contextlib.suppress(OSError):
        while True:
            with listener.accept()[0] as connection:
                connection.sendall(connection.recv(64))


class Redirect(wired.WiredTest):
    def pods(self, options=None):
        self.server, self.client = (self.wired_pod(plugin.IN) for _ in range(2))
        self.inbound, self.outbound = self.sidecar(self.server, "server", options), self.sidecar(self.client, "client", options)

    def listen(self, pod, port, backlog=4096):
        with pod.application():
            listener = socket.create_server(("0.0.0.0", port), backlog=backlog)
        self.addCleanup(listener.close)
        return listener

    def serve(self, pod, port):
        listener = self.listen(pod, port)
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)

    def ask(self, pod, port, host=None):
        """One connection of an application of the pod, or of the node without one."""
        with pod.application() if pod else contextlib.nullcontext():
            asking = socket.socket()
        with asking:
            asking.settimeout(harness.seconds(20))
            asking.connect((host or self.server.address(), port))
            asking.sendall(b"hello")
            return asking.recv(64)

    def conntrack(self, pod):
        return int(pod.inside("cat", CONNTRACK)) if CONNTRACK.exists() else 0

    def test_short_connections_leave_no_trace_and_probes_are_answered(self):
        self.pods()
        self.serve(self.server, 7000)
        for number in range(harness.amount(SHORT_CONNECTIONS)):
            self.assertEqual(self.ask(self.client, 7000), b"hello")
            if number % (harness.amount(SHORT_CONNECTIONS) // PROBES) == 0:
                self.assertEqual(self.ask(None, 7000), b"hello")
        self.assertGreater(self.outbound.smcr_connections(), 0)
        for pod in (self.server, self.client):
            self.assertEqual((pod.nft(), self.conntrack(pod)), ("", 0))

    def test_short_connections_begin_and_end_in_frames(self):
        """As by default: the second TCP option is answered although the SYN has the application's port."""
        self.pods({"smc": {"defer_bytes": "64KiB"}})
        self.serve(self.server, 7006)
        self.assertEqual(self.ask(self.client, 7006), b"hello")
        for proxy in (self.outbound, self.inbound):
            harness.wait_until(lambda proxy=proxy: proxy.metrics().connections("short") == 1, f"a short connection of {proxy.name}", 20)

    def test_a_port_without_a_listener_refuses_whoever_has_the_option(self):
        """The sidecar of the client has accepted the connection by then, and resets it."""
        self.pods()
        with self.assertRaises(ConnectionError):
            self.ask(self.client, 7001)
        self.assertEqual(self.inbound.metrics().connections("tcp") + self.inbound.smcr_connections(), 0)

    def test_a_listener_that_comes_and_goes_is_followed(self):
        self.pods()
        for _ in range(harness.amount(TURNS)):
            listener = self.listen(self.server, 7002)
            thread = threading.Thread(target=echo, args=(listener,), daemon=True)
            thread.start()
            self.assertEqual(self.ask(self.client, 7002), b"hello")
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()
            with self.assertRaises(ConnectionError):
                self.ask(self.client, 7002)

    def test_rules_of_the_application_in_its_pod_hold(self):
        self.pods()
        self.serve(self.server, 8080)
        self.server.inside("nft", "add table ip app; add chain ip app pre { type nat hook prerouting priority dstnat; };"
                           "add rule ip app pre tcp dport 80 redirect to :8080")
        self.assertEqual(self.ask(self.client, 80), b"hello")
        self.assertEqual(self.ask(None, 80), b"hello")
        self.assertEqual(self.ask(self.client, 8080), b"hello")

    def test_a_published_port_of_a_container_engine_in_the_pod_is_reached(self):
        self.pods()
        inner = f"flin{os.getpid()}"
        plugin.run("ip", "netns", "add", inner)
        self.addCleanup(plugin.run, "ip", "netns", "del", inner)
        plugin.run("ip", "-n", self.server.name, "link", "add", "inner0", "type", "veth", "peer", "name", "eth0", "netns", inner)
        for name, device, address in ((self.server.name, "inner0", "172.30.9.1/24"), (inner, "eth0", "172.30.9.2/24")):
            plugin.run("ip", "-n", name, "address", "add", address, "dev", device)
            plugin.run("ip", "-n", name, "link", "set", device, "up")
        plugin.run("ip", "-n", inner, "route", "add", "default", "via", "172.30.9.1")
        self.server.inside("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.server.inside("nft", "add table ip engine; add chain ip engine pre { type nat hook prerouting priority dstnat; };"
                           "add rule ip engine pre iifname eth0 tcp dport 9000 dnat to 172.30.9.2:80")
        with open(f"/run/netns/{inner}", encoding="ascii") as there, open("/proc/thread-self/ns/net", encoding="ascii") as home:
            plugin.enter(there)
            try:
                listener = socket.create_server(("0.0.0.0", 80))
            finally:
                plugin.enter(home)
        self.addCleanup(listener.close)
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        self.assertEqual(self.ask(self.client, 9000), b"hello")

    def test_a_pod_that_takes_its_filter_off_has_tcp(self):
        self.pods()
        self.serve(self.server, 7003)
        self.assertEqual(self.ask(self.client, 7003), b"hello")
        before = self.outbound.smcr_connections()
        self.assertGreater(before, 0)
        self.server.inside("tc", "qdisc", "del", "dev", "eth0", "clsact")
        self.assertEqual(self.ask(self.client, 7003), b"hello")
        self.assertEqual(self.outbound.smcr_connections(), before)
        self.bad(101, ["redirect"], "CHECK", self.server, plugin.IN, cniVersion="1.0.0")

    def test_the_sidecar_is_not_there_yet(self):
        server, client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.server = server
        self.serve(server, 7004)
        self.assertEqual(self.ask(None, 7004), b"hello")
        with self.assertRaises(OSError) as refused:
            self.ask(client, 7004)
        self.assertEqual(refused.exception.errno, errno.ECONNREFUSED)

    def test_both_ends_know_each_other(self):
        self.pods()
        listener = self.listen(self.server, 7005)
        with self.client.application():
            asking = socket.socket()
        with asking:
            asking.connect((self.server.address(), 7005))
            self.assertEqual(asking.getpeername(), (self.server.address(), 7005))
            self.assertEqual(asking.getsockname()[0], self.client.address())
            asking.sendall(b"x")
            listener.settimeout(harness.seconds(20))
            with listener.accept()[0] as accepted:
                self.assertEqual(accepted.getsockname(), (self.server.address(), 7005))


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    plugin.main()
