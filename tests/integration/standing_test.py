"""Limits end no connection that stands. A crowd whose application reads nothing uses up memory.limit. Beside it are
connections whose application reads late: none of them is reset, and all bytes arrive in order."""
import contextlib
import hashlib
import os
import random
import socket
import threading
import unittest

import frames
import peers
from harness import ProxyTest, listener, main

LIMIT = "24MiB"
CROWD_MAX = 600
STANDING = 5
# Less than the bytes of a direction in frames, and more than the small buffers of sockets hold.
BODY_BYTES = 100_000
HELLO = b"hello"
SMALL_BUFFER = 4096
DEFER = {"smc": {"defer_bytes": "64KiB", "defer_turns": 1000, "defer_time": "1h"}}


def body_of(number):
    return random.Random(number).randbytes(BODY_BYTES)


def digest_of(body):
    return hashlib.sha256(body).digest()


def small_listener():
    """What waits for its application stays in the proxy."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    made.bind(("127.0.0.1", 0))
    made.listen(4096)
    return made


class Through:
    """A connection through both proxies."""

    def __init__(self, address):
        self.sock = peers.connect(address, receive_buffer=SMALL_BUFFER)

    def send(self, data):
        self.sock.sendall(data)

    def receive(self, count):
        return peers.receive_exactly(self.sock, count)


class InFrames:
    """A connection in frames to the inbound proxy that is never handed over."""

    def __init__(self, address, proxy):
        self.sock = frames.connect(address, proxy)
        self.begin = frames.PREFACE

    def send(self, data):
        whole, self.begin = self.begin, b""
        for at in range(0, len(data), frames.FRAME_MAX):
            whole += frames.frame(frames.DATA, data[at:at + frames.FRAME_MAX])
        self.sock.sendall(whole)

    def receive(self, count):
        return frames.receive_data(self.sock, count)


class Standing(ProxyTest):
    def setUp(self):
        super().setUp()
        if os.environ.get("FAIRLEAD_VARIANT", "direct") != "direct":
            raise unittest.SkipTest("has settings of its own")
        self.may_read = threading.Event()
        self.late = peers.serve(self, self.read_late, listener=small_listener())
        self.addCleanup(self.may_read.set)
        self.never = small_listener()
        self.addCleanup(self.never.close)
        self.crowd = []
        self.addCleanup(self.disperse)

    def read_late(self, sock):
        """Answers a greeting at once, and a body with its digest when the test permits."""
        sock.sendall(peers.receive_exactly(sock, len(HELLO)))
        self.may_read.wait()
        sock.sendall(digest_of(peers.receive_exactly(sock, BODY_BYTES)))
        sock.sendall(peers.receive_exactly(sock, len(HELLO)))

    def disperse(self):
        for sock in self.crowd:
            sock.close()
        self.crowd = []

    def start_both(self, options, server=None, client=None):
        self.options = options
        self.inbound = self.start("in", [listener("late", "inbound", self.late.address),
                                         listener("never", "inbound", self.never.getsockname())], server)
        self.outbound = self.start("out", [listener("late", "outbound", self.inbound.address("late")),
                                           listener("never", "outbound", self.inbound.address("never"))], client)

    def refused(self, proxy):
        return proxy.metrics().value("fairlead_memory_refused_total")

    def fill(self, proxy, connect, data):
        """Opens connections and sends `data` on each, until `proxy` has no memory for another one."""
        for count in range(CROWD_MAX):
            # The proxy may refuse it at any time.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                sock = connect()
                self.crowd.append(sock)
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    sock.sendall(data)
            if count % 10 == 9 and self.refused(proxy) > 0:
                return
        self.fail(f"memory for {CROWD_MAX} connections")

    def taken(self, proxy):
        """Waits until the proxy has read what it will read now: two answers of its worker lie a turn apart."""
        for _ in range(3):
            proxy.get("/connections")

    def outlast(self, proxy, connections, fill):
        for connection in connections:
            connection.send(HELLO)
            self.assertEqual(connection.receive(len(HELLO)), HELLO)
        fill()
        sent = [peers.Task(connection.send, body_of(number)) for number, connection in enumerate(connections)]
        self.taken(proxy)
        self.may_read.set()
        for number, connection in enumerate(connections):
            with self.subTest(number=number, kind=type(connection).__name__):
                self.assertEqual(connection.receive(hashlib.sha256().digest_size), digest_of(body_of(number)))
                sent[number].finish()
                # It goes on as before.
                connection.send(HELLO)
                self.assertEqual(connection.receive(len(HELLO)), HELLO)
        for connection in connections:
            connection.sock.close()

    def outlast_crowd_through_both(self, options):
        self.start_both(options, server={"memory": {"limit": LIMIT}})
        connections = [Through(self.outbound.address("late")) for _ in range(STANDING)]
        self.outlast(self.inbound, connections, lambda: self.fill(
            self.inbound, lambda: peers.connect(self.outbound.address("never")), bytes(1 << 20)))

    def test_in_frames(self):
        """The crowd are raw clients that send all that frames may carry, announced or not, and never hand over."""
        self.start_both(DEFER, server={"memory": {"limit": LIMIT}})
        connections = [Through(self.outbound.address("late")) for _ in range(STANDING)]
        connections += [InFrames(self.inbound.address("late"), self.inbound) for _ in range(STANDING)]
        self.outlast(self.inbound, connections, lambda: self.fill(
            self.inbound, lambda: frames.connect(self.inbound.address("never"), self.inbound, answered=False),
            frames.PREFACE + frames.data(frames.LIMIT)))
        self.assertEqual(self.inbound.metrics().value("fairlead_connections_refused_total", reason="handshake"), 0)

    def test_in_frames_beside_a_crowd_that_hands_over(self):
        self.outlast_crowd_through_both(DEFER)

    def test_over_tcp(self):
        self.outlast_crowd_through_both({"smc": {"enabled": False}})
        self.assertEqual(list(self.inbound.metrics().fallbacks()), [("disabled", "local")])

    def test_over_smcr(self):
        self.outlast_crowd_through_both({})
        self.assertGreaterEqual(self.inbound.metrics().connections("smcr"), STANDING)

    def test_over_smcr_with_send_rings(self):
        self.outlast_crowd_through_both({"other_devices": {"staged": True}})
        self.assertGreaterEqual(self.inbound.metrics().connections("smcr"), STANDING)


if __name__ == "__main__":
    main()
