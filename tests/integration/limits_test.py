"""At every limit a proxy refuses or falls back, reports it, and recovers below the limit."""
import contextlib
import http.client
import resource
import socket
import threading
import unittest

import peers
from harness import ProxyTest, listener, main, sanitized, seconds, wait_until


class Limits(ProxyTest):
    def setUp(self):
        super().setUp()
        self.server = peers.Server(peers.echo)
        self.addCleanup(self.server.close)
        self.socks = []
        self.resets = 0
        self.addCleanup(self.close_all)

    def close_all(self):
        for sock in self.socks:
            sock.close()
        self.socks = []

    def talk(self, sock, message=b"hello"):
        sock.sendall(message)
        return peers.receive_exactly(sock, len(message)) == message

    def crowd(self, count):
        """Connects and sends data on each connection, without waiting for an answer."""
        for _ in range(count):
            sock = None
            try:
                sock = peers.connect(self.entry)
                sock.sendall(b"?")
                self.socks.append(sock)
            except (ConnectionResetError, BrokenPipeError):
                self.resets += 1
                if sock is not None:
                    sock.close()  # its next read would find the end of the stream, and count it again

    def fates(self):
        """Numbers of connections that were answered, reset, and still pending."""
        fates = {"answered": 0, "reset": 0, "waiting": 0}
        for sock in list(self.socks):
            sock.settimeout(0)
            try:
                fates["answered" if sock.recv(1, socket.MSG_PEEK) else "reset"] += 1
            except BlockingIOError:
                fates["waiting"] += 1
            except ConnectionResetError:
                # The kernel reports it only once.
                self.socks.remove(sock)
                sock.close()
                self.resets += 1
        fates["reset"] += self.resets
        return fates

    def wait_served(self, count):
        try:
            wait_until(lambda: self.fates()["answered"] == count, f"{count} connections to be served")
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.fates()}; outbound {self.outbound.metrics().fallbacks()}, "
                                 f"{self.outbound.get_json('/connections')}") from late

    def crowd_until_memory_is_short(self, proxy):
        """Connects until the proxy has carried one over TCP; returns the number. All are served, because rings leave
        memory for TCP. A hundred at once would be served or not, by the order in which they come."""
        for count in range(5, 301, 5):
            self.crowd(5)
            self.wait_served(count)
            if proxy.metrics().fallbacks():
                return count
        return self.fail("memory for 300 connections")

    def assert_recovers(self):
        self.close_all()
        self.wait_idle()

        def served():
            # Clients that closed before they were accepted may still be in the backlog.
            try:
                with peers.connect(self.entry) as sock:
                    return self.talk(sock, b"recovered" * 10_000)
            except (ConnectionResetError, BrokenPipeError):
                return False
        wait_until(served, "a connection to be served again")
        self.wait_idle()

    def skip_with_ubsan(self):
        if sanitized():
            raise unittest.SkipTest("UBSan needs descriptors to look at types: it takes their lack "
                                    "for a bug")

    def starve(self, proxy_name):
        """A hundred connections need two descriptors each, but there are sixty-four."""
        self.skip_with_ubsan()
        self.start_pair(self.server.address)
        starving = {"in": self.inbound, "out": self.outbound}[proxy_name]
        resource.prlimit(starving.pid, resource.RLIMIT_NOFILE, (64, 64))
        for _ in range(3):
            self.crowd(100)
            # They are served, refused, or wait in the listener's backlog.
            wait_until(lambda: self.fates()["waiting"] < 90, "some to be served or refused")
            self.close_all()
            self.wait_idle()
        self.assert_recovers()
        self.assertEqual(starving.metrics().value("process_max_fds"), 64)

    def test_no_descriptors_at_the_inbound_proxy(self):
        self.starve("in")

    def test_no_descriptors_at_the_outbound_proxy(self):
        self.starve("out")

    def probe(self, proxy):
        """The status of /livez over TCP, as the kubelet requests it."""
        host, port = proxy.admin.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=seconds(10))
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status
        finally:
            connection.close()

    def test_last_descriptors_are_for_probes_and_what_runs(self):
        """Clients use up descriptors: with connections first, then also with slow requests to the admin port."""
        self.start_pair(self.server.address)
        established = [peers.connect(self.entry) for _ in range(4)]
        self.socks.extend(established)
        for sock in established:
            self.assertTrue(self.talk(sock))
        resource.prlimit(self.inbound.pid, resource.RLIMIT_NOFILE, (128, 128))
        self.crowd(200)
        wait_until(lambda: self.inbound.metrics().value("fairlead_descriptors_refused_total") > 100,
                   "those beyond the limit to be refused")
        self.assertEqual(self.inbound.metrics().value("fairlead_accept_errors_total"), 0)
        self.assertIn(self.inbound.log().count("reason=descriptors"), (1, 2))  # one for each worker
        self.assertEqual([self.probe(self.inbound) for _ in range(60)], [200] * 60)
        host, port = self.inbound.admin.rsplit(":", 1)
        for _ in range(100):
            self.socks.append(peers.connect((host, int(port))))
            self.socks[-1].sendall(b"GET /livez HTTP/1.1\r\n")
        self.assertEqual([self.probe(self.inbound) for _ in range(60)], [200] * 60)
        for sock in established:
            self.assertTrue(self.talk(sock))
        self.assert_recovers()

    def test_connections(self):
        self.start_pair(self.server.address, client={"limits": {"connections": 10}})
        self.crowd(25)
        wait_until(lambda: self.fates()["answered"] == 10 and self.fates()["reset"] == 15,
                   "10 to be served and 15 refused")
        metrics = self.outbound.metrics()
        self.assertEqual(metrics.value("fairlead_connections_refused_total"), 15)
        self.assertEqual(metrics.connections("smcr"), 10)
        self.assertIn("limits.connections", self.outbound.log())
        self.assert_recovers()

    def test_inbound_connections_leave_some_for_the_application(self):
        proxy = self.start("both", [listener("in", "inbound", self.server.address),
                                    listener("out", "outbound", self.server.address)],
                           {"limits": {"connections": 8}, "concurrency": 1})
        self.inbound = self.outbound = proxy
        self.entry = proxy.address("in")
        self.crowd(20)
        wait_until(lambda: self.fates()["answered"] == 6 and self.fates()["reset"] == 14, "6 to be served and 14 refused")
        self.entry = proxy.address("out")
        self.crowd(3)
        wait_until(lambda: self.fates()["answered"] == 8 and self.fates()["reset"] == 15, "2 more to be served")
        self.assert_recovers()

    @contextlib.contextmanager
    def hanging_handshake(self, limits):
        """A pair whose client proxy has these limits, and one pending handshake until the block ends."""
        over = threading.Event()
        assumed = {"smc": {"assume": ["127.0.0.0/8"], "handshake_timeout": "60s"}}
        with peers.Server(lambda _: over.wait()) as silent:
            self.inbound = self.start("in", [listener("in", "inbound", self.server.address)], assumed)
            self.outbound = self.start(
                "out", [listener("hangs", "outbound", silent.address),
                        listener("out", "outbound", self.inbound.address("in"))],
                {**assumed, "limits": limits})
            self.entry = self.outbound.address("out")
            self.socks.append(peers.connect(self.outbound.address("hangs")))
            wait_until(lambda: silent.tasks, "the handshake to begin")
            try:
                yield
            finally:
                over.set()

    def test_handshakes(self):
        """One handshake hangs; the next connection does not wait for it but is TCP."""
        with self.hanging_handshake({"handshakes": 1}), peers.connect(self.entry) as sock:
            self.assertTrue(self.talk(sock))
            self.wait_fallback(self.outbound, "connection_limit")

    def test_handshakes_with_one_peer(self):
        """One handshake hangs; the next one with this address waits for it, and then uses SMC-R."""
        with contextlib.ExitStack() as stack:
            with self.hanging_handshake({"handshakes_per_peer": 1}):
                sock = stack.enter_context(peers.connect(self.entry))
                wait_until(lambda: len(self.outbound.get_json("/connections")["connections"]) == 2,
                           "the next to stand in line")
                self.assertEqual(self.inbound.get_json("/connections")["connections"], [])
            self.assertTrue(self.talk(sock))
            # No handshake waits any more: the next one starts at once.
            self.assertTrue(self.talk(stack.enter_context(peers.connect(self.entry))))
        metrics = self.outbound.metrics()
        self.assertEqual(metrics.connections("smcr"), 2)
        self.assertNotIn(("connection_limit", "local"), metrics.fallbacks())

    def test_memory(self):
        """First the rings become smaller, then the connections become TCP."""
        self.start_pair(self.server.address, server={"memory": {"limit": "11MiB"}})
        count = self.crowd_until_memory_is_short(self.inbound)
        metrics = self.inbound.metrics()
        self.assertGreater(metrics.value("fairlead_buffer_downgrade_total"), 0)
        self.assertGreater(metrics.connections("smcr"), 0)
        fallbacks = metrics.fallbacks()
        self.assertEqual(list(fallbacks), [("memory", "local")])
        self.assertEqual(metrics.connections("smcr") + fallbacks["memory", "local"], count)
        self.assertLessEqual(metrics.value("fairlead_pinned_memory_bytes"), 8 << 20)
        self.assertEqual(list(self.outbound.metrics().fallbacks()), [("memory", "peer")])
        before = metrics.connections("smcr")
        self.assert_recovers()
        self.assertEqual(self.inbound.metrics().connections("smcr"), before + 1)

    def test_memory_of_the_client(self):
        self.start_pair(self.server.address, client={"memory": {"limit": "11MiB"}})
        count = self.crowd_until_memory_is_short(self.outbound)
        metrics = self.outbound.metrics()
        self.assertGreater(metrics.connections("smcr"), 0)
        self.assertEqual(metrics.connections("smcr") + metrics.fallbacks()["memory", "local"], count)
        self.assertEqual(list(metrics.fallbacks()), [("memory", "local")])
        self.assertEqual(list(self.inbound.metrics().fallbacks()), [("memory", "peer")])
        self.assert_recovers()


if __name__ == "__main__":
    main()
