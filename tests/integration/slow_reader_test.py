"""A slow reader delays only its writer. The proxies do not buffer the unread data."""
import random
import socket
import threading
import time
from pathlib import Path

import peers
from harness import ProxyTest, VARIANT, main, wait_until

SMALL_BUFFER = 64 * 1024
SECONDS = 120
# The path has three TCP connections, or two and a ring.
HOPS = 3
RINGS_AND_PIPES = 8_000_000
RATE = 2_000_000  # bytes a second


def socket_buffers_max():
    """Largest size to which the kernel itself may grow the buffers of one connection."""
    ends = [Path(f"/proc/sys/net/ipv4/tcp_{end}mem").read_text().split()[2] for end in "rw"]
    return sum(map(int, ends))


class Pace:
    """Limits a loop to a number of bytes a second."""

    def __init__(self, bytes_per_second):
        self.rate = bytes_per_second
        self.begin = time.monotonic()
        self.count = 0

    def moved(self, count):
        self.count += count
        ahead = self.count / self.rate - (time.monotonic() - self.begin)
        if ahead > 0:
            time.sleep(ahead)


class SlowReader(ProxyTest):
    def read_slowly(self, sock):
        digest, pace = peers.Digest(), Pace(RATE)
        while part := sock.recv(65536):
            digest.add(part)
            self.read_count = digest.count
            if not self.enough.is_set():
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
                wait_until(lambda: self.read_count >= SECONDS * RATE, "the slow reader",
                           SECONDS * 2)
                # Data in flight fits rings and socket buffers, so the reader slows the writer.
                self.assertLess(self.write_count - self.read_count,
                                HOPS * socket_buffers_max() + RINGS_AND_PIPES)
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


if __name__ == "__main__":
    main()
