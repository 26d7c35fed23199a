"""Goal: what looks at packets in a pod finds nothing of the redirect, and what it leaves alone is as in a pod without
Fairlead. Method: pods wired by the CNI protocol with real sidecars; probes from the node; rules of the application in its
own pod. The programs of the pods are in their cgroups, as a runtime puts them."""
import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import plugin
import wired
from wired import harness

SHORT_CONNECTIONS = 3000
PROBES = 5
TURNS = 200  # of a listener that comes and goes
GREETING_SECONDS_MAX = 0.15  # of the fastest of some
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

    def failed_connect(self, port, host=None):
        """The errno of connect(2)."""
        with self.client.application():
            asking = socket.socket()
        with asking, self.assertRaises(OSError) as failed:
            asking.settimeout(harness.seconds(20))
            asking.connect((host or self.server.address(), port))
        return failed.exception.errno

    def test_a_port_without_a_listener_refuses_whoever_has_the_option(self):
        self.pods()
        for _ in range(3):
            self.assertEqual(self.failed_connect(7001), errno.ECONNREFUSED)
        self.assertEqual(self.inbound.metrics().connections("tcp") + self.inbound.smcr_connections(), 0)

    def test_a_port_that_answered_and_is_closed_refuses_again(self):
        """connect(2) is trusted for some seconds after an answer: one connection is reset instead."""
        self.pods()
        listener = self.listen(self.server, 7012)
        thread = threading.Thread(target=echo, args=(listener,), daemon=True)
        thread.start()
        self.assertEqual(self.ask(self.client, 7012), b"hello")
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        with self.assertRaises(ConnectionError):
            self.ask(self.client, 7012)
        self.assertEqual(self.failed_connect(7012), errno.ECONNREFUSED)

    def test_a_destination_out_of_reach_fails_as_directly(self):
        self.pods()
        for kind, error in (("unreachable", errno.EHOSTUNREACH), ("throw", errno.ENETUNREACH)):
            self.client.inside("ip", "route", "replace", kind, "10.254.7.1")
            if kind == "throw":
                self.client.inside("ip", "route", "del", "default")
            self.assertEqual(self.failed_connect(80, "10.254.7.1"), error)

    def test_connect_to_a_silent_host_waits_beyond_the_dials_of_the_sidecar(self):
        self.pods({"limits": {"dial_timeout": "100ms"}})
        self.server.inside("nft", "add table ip silent; add chain ip silent in { type filter hook input priority 0; };"
                           "add rule ip silent in tcp dport 7013 drop")
        self.serve(self.server, 7013)
        with self.client.application():
            asking = socket.socket()
        with asking:
            asking.setblocking(False)
            self.assertEqual(asking.connect_ex((self.server.address(), 7013)), errno.EINPROGRESS)
            harness.wait_until(lambda: self.outbound.log().count("event=dial_failed") >= 3, "three dials", 20)
            self.assertEqual(select.select([], [asking], [], 0), ([], [], []))
            self.server.inside("nft", "delete table ip silent")
            self.assertEqual(select.select([], [asking], [], harness.seconds(30))[1], [asking])
            self.assertEqual(asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
            asking.setblocking(True)
            asking.sendall(b"hello")
            self.assertEqual(asking.recv(64), b"hello")

    def test_the_first_words_of_a_server_come_at_once(self):
        """What is sent to a client that is not connected yet would come 200 ms later, by a timer."""
        self.pods()

        def greet(listener):
            with contextlib.suppress(OSError):
                while True:
                    with listener.accept()[0] as connection:
                        connection.sendall(b"welcome")
                        connection.recv(1)
        waits = []
        for port in range(7100, 7105):
            listener = self.listen(self.server, port)
            threading.Thread(target=greet, args=(listener,), daemon=True).start()
            self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
            with self.client.application():
                asking = socket.socket()
            with asking:
                began = time.monotonic()
                asking.connect((self.server.address(), port))
                self.assertEqual(asking.recv(64), b"welcome")
                waits.append(time.monotonic() - began)
        self.assertLess(min(waits), GREETING_SECONDS_MAX, waits)

    def run_application(self, *words):
        return subprocess.run(self.client.command_in_cgroup(*words), capture_output=True, text=True, check=False, timeout=harness.seconds(60))

    def test_programs_that_go_by_connect_find_who_listens(self):
        """Nobody listens at the first of two addresses."""
        self.pods()
        refused = self.wired_pod(plugin.IN).address()
        self.spawn(self.server.command_in_cgroup("python3", "-B", "-m", "http.server", "7014", "--directory", str(self.folder)),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: ":7014" in self.server.inside("ss", "-Hltn"), "the server", 20)
        for _ in range(3):
            done = self.run_application("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{remote_ip}", "--resolve",
                                        f"web:7014:{refused},{self.server.address()}", "http://web:7014/")
            self.assertEqual((done.stdout, done.stderr), (f"200 {self.server.address()}", ""))
        done = self.run_application(sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], 7014))", refused)
        self.assertIn("ConnectionRefusedError", done.stderr)

    @unittest.skipUnless(shutil.which("pg_isready"), "pg_isready is not there")
    def test_libpq_sees_a_closed_port(self):
        self.pods()
        hosts = f"{self.server.address()},{self.wired_pod(plugin.IN).address()}"
        done = self.run_application("pg_isready", "-h", self.server.address(), "-p", "7017")
        self.assertEqual((done.returncode, done.stdout.split(" - ")[-1]), (2, "no response\n"))
        done = self.run_application("psql", f"host={hosts} port=7017 user=nobody dbname=none connect_timeout=10", "-c", "select 1")
        self.assertEqual(done.stderr.count("Connection refused"), 2, done.stderr)

    def test_a_sidecar_that_is_killed_lets_no_client_wait(self):
        self.pods()
        self.server.inside("nft", "add table ip silent; add chain ip silent in { type filter hook input priority 0; };"
                           "add rule ip silent in tcp dport 7016 drop")
        with self.client.application():
            asking = socket.socket()
        with asking:
            asking.setblocking(False)
            self.assertEqual(asking.connect_ex((self.server.address(), 7016)), errno.EINPROGRESS)
            harness.wait_until(lambda: self.outbound.get_json("/connections")["connections"], "the dial", 20)
            self.outbound.expected_exit = -signal.SIGKILL
            self.outbound.process.kill()
            self.assertEqual(select.select([], [asking], [], harness.seconds(20))[1], [asking])
            self.assertEqual(asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNREFUSED)

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

    def plain_server(self, port):
        """A pod that was injected, but whose sidecar does not run."""
        self.server, self.client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.outbound = self.sidecar(self.client, "client")
        self.serve(self.server, port)
        return f"{self.server.address()}:{port}"

    def carried(self):
        return sum(self.outbound.metrics().connections(transport) for transport in ("tcp", "smcr", "short"))

    def ask_until(self, port, wanted, what):
        """Asks until one of the connections has gone through the sidecar."""
        before = self.carried()

        def through():
            self.assertEqual(self.ask(self.client, port), b"hello")
            return self.carried() > before
        harness.wait_until(through, what, 60)
        self.assertEqual(self.outbound.ctl("why", f"{self.server.address()}:{port}")["decisions"][0]["transport"], wanted)

    def test_what_cannot_gain_goes_past_the_sidecar(self):
        destination = self.plain_server(7007)
        for _ in range(20):
            self.assertEqual(self.ask(self.client, 7007), b"hello")
        self.assertEqual(self.carried(), 1)
        self.assertEqual(self.outbound.metrics().value("fairlead_direct_connections_total"), 19)
        self.assertEqual(self.outbound.metrics().value("fairlead_destinations_direct", reason="peer_not_injected"), 1)
        known = self.outbound.ctl("destinations")
        self.assertEqual([(row["destination"], row["reason"]) for row in known["destinations"]], [(destination, "peer_not_injected")])
        self.assertEqual(known["direct_connections"], 19)
        steps = self.outbound.ctl("why", destination)["decisions"][0]["steps"]
        self.assertTrue(any("directly" in step for step in steps), steps)

    def test_a_peer_that_gets_a_sidecar_is_found(self):
        self.plain_server(7008)
        self.assertEqual(self.ask(self.client, 7008), b"hello")
        self.assertEqual(self.ask(self.client, 7008), b"hello")
        self.assertEqual(self.carried(), 1)
        self.sidecar(self.server, "server")
        self.ask_until(7008, "smcr", "a connection over SMC-R")
        self.assertEqual(self.outbound.ctl("destinations")["destinations"], [])
        through = self.carried()
        for _ in range(5):
            self.assertEqual(self.ask(self.client, 7008), b"hello")
        self.assertEqual(self.carried(), through + 5)

    def test_the_next_sidecar_learns_anew(self):
        self.plain_server(7009)
        for _ in range(3):
            self.assertEqual(self.ask(self.client, 7009), b"hello")
        self.assertEqual(self.carried(), 1)
        self.outbound.finish()
        self.outbound = self.sidecar(self.client, "client2")
        for _ in range(3):
            self.assertEqual(self.ask(self.client, 7009), b"hello")
        self.assertEqual(self.carried(), 1)

    def test_what_must_be_smc_never_goes_past_the_sidecar(self):
        self.server, self.client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.outbound = self.sidecar(self.client, "client", {"fallback": "deny"})
        self.serve(self.server, 7010)
        for _ in range(3):
            with self.assertRaises(ConnectionError):
                self.ask(self.client, 7010)
        self.assertEqual(self.outbound.metrics().value("fairlead_connections_refused_total", reason="denied"), 3)
        self.assertEqual(self.outbound.ctl("destinations")["destinations"], [])

    def test_all_connections_pass_the_sidecar_where_that_is_wanted(self):
        self.server, self.client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.outbound = self.sidecar(self.client, "client", {"direct": "never"})
        self.serve(self.server, 7011)
        for _ in range(5):
            self.assertEqual(self.ask(self.client, 7011), b"hello")
        self.assertEqual(self.carried(), 5)
        self.assertIn("configuration", self.outbound.ctl("destinations")["unavailable"])

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
