"""Many connections: concurrent, over several link groups, and one after the other."""
import random
import selectors
import signal
import socket
import threading

import peers
from harness import ProxyTest, VARIANT, amount, main, wait_until

MESSAGE_BYTES = 20_000


class EchoLoop:
    """An echo server for thousands of connections in one thread."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.address = self.listener.getsockname()
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.ended = False
        self.pending = {}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ended:
            for key, events in self.selector.select(0.1):
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._serve(key.fileobj, events)

    def _accept(self):
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        sock.setblocking(False)
        self.pending[sock] = bytearray()
        self.selector.register(sock, selectors.EVENT_READ)

    def _serve(self, sock, events):
        waiting = self.pending[sock]
        try:
            if events & selectors.EVENT_READ:
                part = sock.recv(65536)
                if not part:
                    return self._drop(sock)
                waiting += part
            if waiting:
                del waiting[:sock.send(waiting)]
        except BlockingIOError:
            pass
        except OSError:
            return self._drop(sock)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
        self.selector.modify(sock, wanted)

    def _drop(self, sock):
        self.selector.unregister(sock)
        del self.pending[sock]
        sock.close()

    def close(self):
        self.ended = True
        self.thread.join()
        for sock in list(self.pending):
            self._drop(sock)
        self.listener.close()


class Crowd(ProxyTest):
    options = {"buffers": {"size": "64KiB"}}

    def setUp(self):
        super().setUp()
        self.server = EchoLoop()
        self.addCleanup(self.server.close)
        self.start_pair(self.server.address)

    def test_six_hundred_connections_in_three_link_groups(self):
        count = 600
        socks = []
        self.addCleanup(lambda: [sock.close() for sock in socks])
        messages = [random.Random(i).randbytes(MESSAGE_BYTES) for i in range(count)]
        for _ in range(count):
            socks.append(peers.connect(self.entry))
        for sock, message in zip(socks, messages):
            sock.sendall(message)
        for sock, message in zip(socks, messages):
            self.assertEqual(peers.receive_exactly(sock, MESSAGE_BYTES), message)
        self.assert_carried(count)
        for proxy in self.proxies:
            self.assertEqual(proxy.metrics().active(), count)
            if VARIANT == "tcp":
                continue
            groups = proxy.get_json("/linkgroups")["link_groups"]
            self.assertEqual(sum(group["connections"] for group in groups), count)
            self.assertGreaterEqual(len(groups), 3)
            self.assertLessEqual(max(group["connections"] for group in groups), 255)
        for sock in socks:
            sock.close()
        self.wait_idle()

    def run_short_connections(self, count, seed):
        generator = random.Random(seed)
        for _ in range(count):
            message = generator.randbytes(generator.randrange(1, 300))
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, message)

    def test_churn(self):
        """Thousands of short connections leave nothing behind."""
        self.run_short_connections(20, 0)
        self.wait_idle()

        def state():
            metrics = [proxy.metrics() for proxy in self.proxies]
            return [m.value("process_open_fds") for m in metrics], \
                [m.value("fairlead_link_groups") for m in metrics]
        wait_until(lambda: state() == state(), "quiet")
        descriptors, groups = state()
        resident = [proxy.resident_bytes() for proxy in self.proxies]
        threads, each = 8, amount(500)
        for task in [peers.Task(self.run_short_connections, each, i) for i in range(threads)]:
            task.finish(120)
        self.wait_idle()
        self.assert_carried(threads * each)
        descriptors_after, groups_after = state()
        for before, after in zip(descriptors, descriptors_after):
            # Pools may have grown, but no connection may remain.
            self.assertLess(after - before, 50)
        if VARIANT in ("direct", "staged"):
            self.assertEqual(groups_after, groups)
        for proxy, before in zip(self.proxies, resident):
            self.assertLess(proxy.resident_bytes() - before, 32_000_000, proxy.name)

    def test_churn_with_resets(self):
        """All kinds of ends, from both sides, at random times."""
        def disturb(count, seed):
            generator = random.Random(seed)
            for _ in range(count):
                sock = peers.connect(self.entry)
                how = generator.randrange(4)
                if how:
                    sock.sendall(generator.randbytes(generator.randrange(1, 30_000)))
                if how == 3:
                    sock.recv(1)
                if generator.randrange(2):
                    peers.reset(sock)
                else:
                    sock.close()
        for task in [peers.Task(disturb, amount(150), i) for i in range(8)]:
            task.finish(120)
        self.wait_idle()
        self.run_short_connections(20, 99)
        self.assert_carried(20)
        self.wait_idle()


class BulkInACrowd(ProxyTest):
    """A connection that is accepted while memory is short begins with small buffers, and is served."""

    options = {"buffers": {"size": "64KiB"}, "memory": {"limit": "64MiB"}}

    def test_bulk_beside_idle_connections(self):
        self.check_bulk_beside(35 if VARIANT == "earned" else 60)

    def test_bulk_when_half_of_the_memory_is_used(self):
        used = self.check_bulk_beside({"earned": 800, "tcp": 820, "staged": 340}.get(VARIANT, 280))
        self.assertGreater(used, 0.5)
        self.assertLess(used, 0.8)

    def check_bulk_beside(self, idle_connections):
        """Returns what part of its memory the proxy beside the application used before."""
        size = amount(64 << 20)

        def serve(sock):
            received = 0
            while part := sock.recv(1 << 20):
                received += len(part)
            sock.sendall(received.to_bytes(8, "big"))
        server = peers.serve(self, serve)
        self.start_pair(server.address)
        idle = []
        self.addCleanup(lambda: [sock.close() for sock in idle])
        for _ in range(idle_connections):
            idle.append(peers.connect(self.entry))
        wait_until(lambda: self.inbound.metrics().active() == idle_connections, "the idle connections")
        metrics = self.inbound.metrics()
        used = sum(metrics.value("fairlead_memory_bytes", use=use) for use in ("rings", "peer_rings", "messages",
                                                                              "connections"))
        with peers.connect(self.entry) as sock:
            block = bytes(1 << 20)
            sending = peers.Task(lambda: [sock.sendall(block) for _ in range(size >> 20)])
            # With a window smaller than a packet only some kilobytes move in a second, and the test takes an hour.
            sending.finish(120)
            sock.shutdown(socket.SHUT_WR)
            self.assertEqual(int.from_bytes(peers.receive_exactly(sock, 8), "big"), size >> 20 << 20)
        return used / metrics.value("fairlead_memory_limit_bytes")


class Burst(ProxyTest):
    """Connections that wait while a proxy does not run were set up with large buffers. None of them is refused."""

    options = {"buffers": {"size": "64KiB"}, "memory": {"limit": "64MiB"}}
    COUNT = 280

    def check_burst_at(self, stopped):
        self.server = EchoLoop()
        self.addCleanup(self.server.close)
        self.start_pair(self.server.address)
        proxy = getattr(self, stopped)
        socks = []
        self.addCleanup(lambda: [sock.close() for sock in socks])
        proxy.process.send_signal(signal.SIGSTOP)
        for _ in range(self.COUNT):
            socks.append(peers.connect(self.entry))
        proxy.process.send_signal(signal.SIGCONT)
        for sock in socks:
            sock.sendall(b"question")
        for sock in socks:
            self.assertEqual(peers.receive_exactly(sock, 8), b"question")
        for each in self.proxies:
            self.assertNotIn(" event=refused ", each.log())

    def test_at_the_outbound_proxy(self):
        self.check_burst_at("outbound")

    def test_at_the_inbound_proxy(self):
        self.check_burst_at("inbound")


if __name__ == "__main__":
    main()
