"""A proxy is killed, or is stopped in order, while connections transfer data."""
import queue

import peers
from harness import ProxyTest, listener, main, seconds, wait_until


def stream_for_ever(sock):
    """Waits for the end of the connection; True if it was a reset."""
    sock.settimeout(seconds(20))
    try:
        while True:
            sock.sendall(bytes(65536))
    except (ConnectionResetError, BrokenPipeError):
        return True


def wait_flow(inbound):
    wait_until(lambda: inbound.metrics().value("fairlead_bytes_total", direction="inbound", flow="rx") > 1_000_000,
               "data to flow")


class PeerDies(ProxyTest):
    # No test waits for this timeout: the end of a peer must be noticed without it.
    options = {"smc": {"test_link_interval": "1h"}}

    def start_two_peers(self):
        """One outbound proxy in front of two inbound ones; applications that read and discard all data."""
        self.servers = [peers.serve(self, self.swallow) for _ in range(2)]
        self.ends = queue.Queue()
        self.inbounds = [self.start(f"in{i}", [listener("in", "inbound", server.address)])
                         for i, server in enumerate(self.servers)]
        self.start_outbound()

    def start_outbound(self):
        self.outbound = self.start("out", [listener(f"out{i}", "outbound", proxy.address("in"))
                                           for i, proxy in enumerate(self.inbounds)])

    def swallow(self, sock):
        sock.sendall(b"!")
        ended = peers.ends_in_reset(sock)
        self.ends.put(ended)
        return ended

    def connect(self, index):
        sock = peers.connect(self.outbound.address(f"out{index}"))
        self.addCleanup(sock.close)
        self.assertEqual(sock.recv(1), b"!")
        return sock

    def restart(self, index):
        address = self.inbounds[index].addresses["in"]
        self.inbounds[index] = self.start(
            f"in{index}", [listener("in", "inbound", self.servers[index].address, listen=address)])

    def test_kill_of_the_inbound_proxy(self):
        self.start_two_peers()
        busy, idle, undisturbed = self.connect(0), self.connect(0), self.connect(1)
        sender = peers.Task(stream_for_ever, busy)
        wait_flow(self.inbounds[0])
        self.inbounds[0].kill()
        self.assertTrue(peers.ends_in_reset(idle))
        self.assertTrue(sender.finish(10))
        for _ in (busy, idle):  # the application can only learn that the connection has ended
            self.ends.get(timeout=seconds(5))
        undisturbed.sendall(b"still here")
        undisturbed.close()
        self.assertEqual(self.servers[1].results(), [False])
        self.proxies.remove(self.inbounds[0])
        self.wait_idle()
        self.restart(0)
        for _ in range(3):
            self.connect(0).close()
        wait_until(lambda: self.inbounds[0].metrics().connections("smcr") == 3, "SMC-R again")
        self.assertEqual(self.outbound.metrics().fallbacks(), {})
        self.wait_idle()

    def test_kill_of_the_outbound_proxy(self):
        self.start_two_peers()
        sock = self.connect(0)
        sender = peers.Task(stream_for_ever, sock)
        wait_flow(self.inbounds[0])
        self.outbound.kill()
        self.proxies.remove(self.outbound)
        self.assertTrue(sender.finish(10))
        self.assertTrue(self.ends.get(timeout=seconds(5)))
        self.wait_idle(*self.inbounds)
        self.start_outbound()
        self.connect(0).close()
        self.wait_idle()
        self.assert_smcr(self.outbound)

    def test_killed_and_restarted_ten_times(self):
        """The remaining proxy accumulates no state of the killed ones."""
        self.start_two_peers()
        self.connect(0).close()
        descriptors = None
        for _ in range(10):
            sock = self.connect(0)
            self.inbounds[0].kill()
            self.proxies.remove(self.inbounds[0])
            self.assertTrue(peers.ends_in_reset(sock))
            self.restart(0)
            self.connect(0).close()
            self.wait_idle(self.outbound)
            if descriptors is None:
                descriptors = self.outbound.metrics().value("process_open_fds")
        wait_until(lambda: self.outbound.metrics().value("process_open_fds") <= descriptors + 5,
                   f"descriptors to fall to about {descriptors}; there are "
                   f"{self.outbound.metrics().value('process_open_fds')}")
        metrics = self.outbound.metrics()
        self.assertEqual(metrics.connections("smcr"), 21)
        self.assertEqual(metrics.connections("tcp"), 0)
        self.assertLessEqual(metrics.value("fairlead_link_groups"), 2)


class Termination(ProxyTest):
    def count_then_answer(self, sock):
        digest = peers.receive_digest(sock)
        sock.sendall(f"{digest[0]} {digest[1]}".encode())
        return digest

    def check_drain(self, proxy_name):
        """Open transfers finish within the drain timeout, and then the proxy ends."""
        options = {"drain": {"timeout": "60s"}}
        with peers.Server(self.count_then_answer) as server:
            self.start_pair(server.address, options, options)
            proxy = {"in": self.inbound, "out": self.outbound}[proxy_name]
            begun, go_on = queue.Queue(), queue.Queue()

            def upload(seed):
                with peers.connect(self.entry, timeout=60) as sock:
                    sent = peers.Digest()
                    sent.add(bytes([seed]) * 600_000)
                    sock.sendall(bytes([seed]) * 300_000)
                    begun.put(seed)
                    go_on.get()
                    sock.sendall(bytes([seed]) * 300_000)
                    sock.shutdown(1)
                    self.assertEqual(peers.receive_all(sock), "{} {}".format(*sent.value()).encode())
            uploads = [peers.Task(upload, seed) for seed in range(20)]
            for _ in uploads:
                begun.get(timeout=seconds(20))
            proxy.terminate()
            wait_until(lambda: proxy.metrics().value("fairlead_draining") == 1, "draining")
            for _ in uploads:
                go_on.put(True)
            for task in uploads:
                task.finish()
            self.assertEqual(proxy.wait_exit(10), 0)
            self.assertEqual(len(server.results(20)), 20)

    def test_drain_of_the_outbound_proxy(self):
        self.check_drain("out")

    def test_drain_of_the_inbound_proxy(self):
        self.check_drain("in")

    def check_deadline(self, proxy_name):
        """Connections that do not end are reset after the drain timeout."""
        with peers.Server(peers.ends_in_reset) as server:
            options = {"drain": {"timeout": "500ms"}}
            self.start_pair(server.address, options, options)
            proxy = {"in": self.inbound, "out": self.outbound}[proxy_name]
            with peers.connect(self.entry) as sock:
                sender = peers.Task(stream_for_ever, sock)
                wait_flow(self.inbound)
                proxy.terminate()
                self.assertEqual(proxy.wait_exit(10), 0)
                self.assertTrue(sender.finish(10))
            self.assertEqual(server.results(), [True])

    def test_drain_of_the_outbound_proxy_ends_in_time(self):
        self.check_deadline("out")

    def test_drain_of_the_inbound_proxy_ends_in_time(self):
        self.check_deadline("in")


if __name__ == "__main__":
    main()
