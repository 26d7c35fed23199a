"""Mixed load: sizes from 1 byte to 8 MiB, half-closes, aborts, slow readers, and a port that fails
every few seconds. Each received byte is compared with the sent one. Connections without an abort get all bytes.

Two proxies have two workers each and two links a group. One writes into its peer's memory directly, the
other one through send rings, as with an RNIC.

  SOAK_SECONDS  how long (default 5)
  SOAK_SEED     seed of the order of actions, as far as the test controls it (default 1)
"""
import os
import random
import socket
import struct
import threading
import time

import peers
from harness import ProxyTest, main, merge, wait_until
from ports import TWO_PORTS, group_types, port_states, wait_symmetric

SECONDS = float(os.environ.get("SOAK_SECONDS", "5"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
PROGRESS_SECONDS = 15
TALKERS = 12
WORKERS = 2
SIZE_BITS_MAX = 23
PART_BYTES_MAX = 128 * 1024
TABLE = random.Random(0).randbytes((1 << 20) + 7)  # longer than all buffers on the way
HEADER = struct.Struct("!BIQ")  # kind, where in the table the data begin, size


class Stream:
    """The bytes of one connection, one after the other."""

    def __init__(self, begin, size):
        self.at, self.left = begin % len(TABLE), size

    def take(self, count):
        part = TABLE[self.at:self.at + min(count, self.left)]
        self.at = (self.at + len(part)) % len(TABLE)
        self.left -= len(part)
        return part

    def check(self, received):
        while received:
            expected = self.take(len(received))
            if not expected or received[:len(expected)] != expected:
                raise AssertionError(f"not the bytes that were sent, {self.left} before the end")
            received = received[len(expected):]


def send(sock, stream):
    while part := stream.take(PART_BYTES_MAX):
        sock.sendall(part)


def send_and_end(sock, stream):
    send(sock, stream)
    sock.shutdown(socket.SHUT_WR)


def receive(sock, stream, pause=0.0):
    """Reads to the end, which follows the last byte of the stream. A pause in the middle fills buffers."""
    pause_at = stream.left // 3
    while part := sock.recv(PART_BYTES_MAX):
        stream.check(part)
        if pause and stream.left <= pause_at:
            time.sleep(pause)
            pause = 0.0
    if stream.left:
        raise AssertionError(f"the end came {stream.left} bytes early")


def receive_until_reset(sock, stream):
    """A sender that aborts may have sent only a part, but then no FIN follows."""
    try:
        receive(sock, stream)
    except ConnectionError:
        return


def send_some_and_reset(sock, stream, after):
    """Resets while it sends, and while it receives the echo."""
    # While a thread waits for space in the socket's buffer, closing the socket does not reset it.
    sock.settimeout(1)
    task = peers.Task(send_until_reset, sock, stream)
    time.sleep(after)
    peers.reset(sock)
    task.finish()


def send_until_reset(sock, stream):
    try:
        send(sock, stream)
    except OSError:
        return


class Echo:
    """Both ways at once; the client sends FIN first."""

    @staticmethod
    def client(sock, begin, size, pause):
        sender = peers.Task(send_and_end, sock, Stream(begin, size))
        receive(sock, Stream(begin, size), pause)
        sender.finish()

    @staticmethod
    def server(sock, _begin, _size):
        peers.echo(sock)
        sock.shutdown(socket.SHUT_WR)


class Download:
    """The server sends FIN first, and then receives data from the client that has read everything."""

    @staticmethod
    def client(sock, begin, size, pause):
        receive(sock, Stream(begin, size), pause)
        send_and_end(sock, Stream(begin, size // 4))

    @staticmethod
    def server(sock, begin, size):
        send_and_end(sock, Stream(begin, size))
        receive(sock, Stream(begin, size // 4))


class Questions:
    COUNT = 20
    BYTES_MAX = 20_000

    @classmethod
    def client(cls, sock, begin, size, _pause):
        for i in range(cls.COUNT):
            message = Stream(begin + i * size, min(size, cls.BYTES_MAX)).take(cls.BYTES_MAX)
            sock.sendall(message)
            if peers.receive_exactly(sock, len(message)) != message:
                raise AssertionError("another answer than was sent")

    @staticmethod
    def server(sock, _begin, _size):
        peers.echo(sock)


class ClientAborts:
    @staticmethod
    def client(sock, begin, size, pause):
        send_some_and_reset(sock, Stream(begin, size), pause)

    @staticmethod
    def server(sock, begin, size):
        receive_until_reset(sock, Stream(begin, size))


class ServerAborts:
    @staticmethod
    def client(sock, begin, size, _pause):
        receive_until_reset(sock, Stream(begin, size))

    @staticmethod
    def server(sock, begin, size):
        send_some_and_reset(sock, Stream(begin, size), begin % 50 / 1000)


KINDS = (Echo, Download, Questions, ClientAborts, ServerAborts)
SHARES = (4, 4, 4, 1, 1)


def serve(sock):
    head = b""
    while len(head) < HEADER.size:
        try:
            part = sock.recv(HEADER.size - len(head))
        except ConnectionError:
            return
        if not part:
            raise AssertionError("a connection said nothing")
        head += part
    kind, begin, size = HEADER.unpack(head)
    KINDS[kind].server(sock, begin, size)


class Soak(ProxyTest):
    options = merge(TWO_PORTS, {"concurrency": WORKERS, "log": {"level": "info"}})

    def talk(self, seed):
        """One connection after the other, until the time is over."""
        generator = random.Random(seed)
        while time.monotonic() < self.until:
            kind = generator.choices(range(len(KINDS)), SHARES)[0]
            size = int(2 ** generator.uniform(0, SIZE_BITS_MAX))
            begin = generator.randrange(len(TABLE))
            pause = generator.choice((0.0, 0.0, generator.uniform(0, 0.1)))
            with peers.connect(self.entry) as sock:
                sock.sendall(HEADER.pack(kind, begin, size))
                KINDS[kind].client(sock, begin, size, pause)
            with self.lock:
                self.done[KINDS[kind].__name__] += 1

    def wait_for_all_groups(self):
        """Creates a link group between each pair of workers, so that all are symmetric before ports fail."""
        def all_there():
            peers.exchange(self.entry, HEADER.pack(0, 0, 0))
            return all(len(group_types(proxy)) == WORKERS ** 2 for proxy in self.proxies)
        wait_until(all_there, "each worker to know each of the peer's", 30)

    def flap(self, generator):
        """A port goes down for a while and comes back."""
        proxy, port = generator.choice(self.proxies), generator.choice((1, 2))
        self.take_port(proxy, port, "down")
        time.sleep(generator.choice((0.0, generator.uniform(0, 1))))
        self.take_port(proxy, port, "up")
        wait_symmetric(*self.proxies)
        time.sleep(generator.uniform(0, 2))

    @staticmethod
    def take_port(proxy, port, state):
        proxy.ctl("port", "shm0", str(port), state)
        want = "active" if state == "up" else "down"
        wait_until(lambda: port_states(proxy, port) == {want}, f"port {port} to go {state}")

    def progress(self, ports):
        moved = [proxy.metrics().value("fairlead_connections_moved_total") for proxy in self.proxies]
        memory = [proxy.resident_bytes() >> 20 for proxy in self.proxies]
        with self.lock:
            done = ", ".join(f"{name} {count}" for name, count in self.done.items())
        print(f"soak: {time.monotonic() - self.began:.0f} s: {done}; {ports} times a port down, "
              f"{sum(moved):.0f} connections moved; resident {' and '.join(map(str, memory))} MiB",
              flush=True)

    @staticmethod
    def failed(tasks):
        return any(task.error is not None for task in tasks)

    def test_every_byte_arrives_whatever_happens_to_ports_and_applications(self):
        server = peers.serve(self, serve)
        self.start_pair(server.address, {"other_devices": {"staged": True}})
        self.wait_for_all_groups()
        wait_symmetric(*self.proxies)
        self.began = shown = time.monotonic()
        self.until = self.began + SECONDS
        self.done = {kind.__name__: 0 for kind in KINDS}
        self.lock = threading.Lock()
        talkers = [peers.Task(self.talk, SEED * 1000 + i) for i in range(TALKERS)]
        generator = random.Random(SEED)
        ports = 0
        while time.monotonic() < self.until and not self.failed(talkers + server.tasks):
            self.flap(generator)
            ports += 1
            if time.monotonic() - shown > PROGRESS_SECONDS:
                self.progress(ports)
                shown = time.monotonic()
        for tasks in (talkers, server.tasks):
            for task in tasks:
                task.finish()
        self.progress(ports)
        self.assertGreater(ports, 0)
        self.assertGreater(min(self.done.values()), 0)
        self.assert_smcr()
        self.wait_idle()


if __name__ == "__main__":
    main()
