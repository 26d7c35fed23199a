"""Slow peers hold each other up and nobody else: the proxies neither gather data nor spin."""
import random
import socket
import threading
import time

import peers
from harness import ProxyTest, VARIANT, main, seconds, wait_until

SMALL_BUFFER = 64 * 1024


class Pace:
    """Holds a loop down to a number of bytes a second."""

    def __init__(self, bytes_per_second):
        self.rate = bytes_per_second
        self.begin = time.monotonic()
        self.count = 0

    def moved(self, count):
        self.count += count
        ahead = self.count / self.rate - (time.monotonic() - self.begin)
        if ahead > 0:
            time.sleep(ahead)


class SlowPeers(ProxyTest):
    """Twenty seconds: neither a slow reader nor a slow writer costs data, memory or CPU."""

    DURATION = 20
    RATE = 4_000_000  # bytes a second

    def read_slowly(self, sock):
        digest, pace = peers.Digest(), Pace(self.RATE)
        while part := sock.recv(65536):
            digest.add(part)
            self.read_count = digest.count
            pace.moved(len(part))
        return digest.value()

    def write_fast(self, sock):
        generator, digest = random.Random(6), peers.Digest()
        block = generator.randbytes(65536)
        while not self.enough.is_set():
            sock.sendall(block)
            digest.add(block)
            self.write_count = digest.count
        sock.shutdown(socket.SHUT_WR)
        return digest.value()

    def test_slow_reader(self):
        self.read_count = self.write_count = 0
        self.enough = threading.Event()

        def handle(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            return self.read_slowly(sock)
        with peers.Server(handle) as server:
            self.start_pair(server.address)
            before = [proxy.resident_bytes() for proxy in self.proxies]
            with peers.connect(self.entry) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
                writer = peers.Task(self.write_fast, sock)
                self.addCleanup(self.enough.set)
                wait_until(lambda: self.read_count >= self.DURATION * self.RATE, "the slow reader",
                           self.DURATION * 2)
                # What is under way fits rings and sockets' buffers: the writer feels the reader.
                self.assertLess(self.write_count - self.read_count, 40_000_000)
                after = [proxy.resident_bytes() for proxy in self.proxies]
                if VARIANT != "tcp":
                    full = self.outbound.metrics().value("fairlead_buffer_full_total", side="peer")
                    self.assertGreater(full, 0)
                self.enough.set()
                sent = writer.finish()
                self.assertEqual(server.results(), [sent])
        for was, now in zip(before, after):
            self.assertLess(now - was, 32_000_000)
        self.assert_carried()
        self.wait_idle()

    def test_slow_writer(self):
        """Little by little on 50 connections at once; the proxies have nearly nothing to do."""
        def trickle(sock, seed):
            generator, digest = random.Random(seed), peers.Digest()
            until = time.monotonic() + self.DURATION
            while time.monotonic() < until:
                block = generator.randbytes(generator.randrange(1, 3000))
                sock.sendall(block)
                digest.add(block)
                time.sleep(generator.uniform(0.2, 0.6))
            sock.close()
            return digest.value()
        with peers.Server(peers.receive_digest) as server:
            self.start_pair(server.address)
            begin = [proxy.metrics().value("process_cpu_seconds_total") for proxy in self.proxies]
            writers = [peers.Task(trickle, peers.connect(self.entry), seed) for seed in range(50)]
            sent = [writer.finish(self.DURATION * 3) for writer in writers]
            self.assertEqual(sorted(server.results(50)), sorted(sent))
            for proxy, was in zip(self.proxies, begin):
                used = proxy.metrics().value("process_cpu_seconds_total") - was
                self.assertLess(used, seconds(self.DURATION * 0.25), f"CPU seconds of {proxy.name}")
        self.assert_carried(50)


if __name__ == "__main__":
    main()
