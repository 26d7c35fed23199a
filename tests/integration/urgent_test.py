"""Urgent data: MSG_OOB is delivered as without a proxy.

Each case also runs without a proxy, and the application must see the same."""
import contextlib
import fcntl
import select
import socket
import struct

import peers
from harness import ProxyTest, amount, main, seconds
from last_words_test import Rendezvous

SIOCATMARK = 0x8905
LONG = 300_000  # number of bytes that makes the TCP relay splice


def at_mark(sock):
    return struct.unpack("i", fcntl.ioctl(sock, SIOCATMARK, struct.pack("i", 0)))[0] != 0


def fetch(sock):
    """The urgent byte. With a timeout Python would wait for ordinary data first."""
    timeout = sock.gettimeout()
    sock.settimeout(None)
    try:
        return sock.recv(1, socket.MSG_OOB)
    finally:
        sock.settimeout(timeout)


def receive_marked(sock):
    """All bytes of a socket with SO_OOBINLINE, and the places of those that were at the mark."""
    data, marks = bytearray(), []
    while True:
        select.select([sock], [], [], seconds(20))
        marked = at_mark(sock)
        part = sock.recv(1 if marked else peers.BLOCK_BYTES)
        if not part:
            return bytes(data), marks
        if marked:
            marks.append(len(data))
        data += part


def receive_out_of_band(sock):
    """Data that a socket without SO_OOBINLINE reads: in the stream, and out of band."""
    data, urgent = bytearray(), []
    poll = select.poll()
    poll.register(sock, select.POLLIN | select.POLLPRI)
    while True:
        events = dict(poll.poll(1000 * seconds(20)))[sock.fileno()]
        if events & select.POLLPRI:
            with contextlib.suppress(OSError):
                urgent.append(fetch(sock))
        if events & select.POLLIN:
            part = sock.recv(peers.BLOCK_BYTES)
            if not part:
                return bytes(data), urgent
            data += part


class Urgent(ProxyTest):
    def setUp(self):
        super().setUp()
        self.meeting = Rendezvous()
        self.server = peers.serve(self, self.meeting.handle)
        self.start_pair(self.server.address)

    @contextlib.contextmanager
    def connection(self, flow, inline, entry=None):
        """The pair (sender, receiver)."""
        with peers.connect(entry or self.entry) as client:
            server, done = self.meeting.meet()
            sender, receiver = (client, server) if flow == "to_server" else (server, client)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, inline)
            try:
                # The path exists from end to end only after this byte.
                client.sendall(b"h")
                peers.receive_exactly(server, 1)
                yield sender, receiver
            finally:
                server.close()
                done.set()

    def cases(self):
        for flow in ("to_server", "to_client"):
            for before in (0, 5, LONG):
                for behind in (0, 7, LONG):
                    yield flow, b"b" * before, b"a" * behind

    def test_in_line_the_byte_is_at_the_mark(self):
        """At the start, in the middle and at the end, with and without a stalled reader, with FIN behind."""
        for flow, before, behind in self.cases():
            for stalled in (False, True):
                with self.subTest(flow=flow, before=len(before), behind=len(behind), stalled=stalled), \
                        self.connection(flow, 1) as (sender, receiver):
                    reading = None if stalled else peers.Task(receive_marked, receiver)
                    sending = peers.Task(self.speak, sender, before, behind)
                    if stalled and len(before) + len(behind) < LONG:
                        sending.finish()  # all is on its way before anything is read
                    reading = reading or peers.Task(receive_marked, receiver)
                    sending.finish()
                    self.assertEqual(reading.finish(), (before + b"!" + behind, [len(before)]))
        self.assert_carried()
        self.wait_idle()

    @staticmethod
    def speak(sender, before, behind, urgent=b"!"):
        sender.sendall(before)
        sender.send(urgent, socket.MSG_OOB)
        sender.sendall(behind)
        sender.shutdown(socket.SHUT_WR)

    def test_out_of_band_the_byte_comes_by_itself(self):
        for flow, before, behind in self.cases():
            with self.subTest(flow=flow, before=len(before), behind=len(behind)), \
                    self.connection(flow, 0) as (sender, receiver):
                reading = peers.Task(receive_out_of_band, receiver)
                self.speak(sender, before, behind)
                data, urgent = reading.finish()
                self.assertEqual(data, before + behind)
                self.assertLessEqual(urgent, [b"!"])
        self.wait_idle()

    def test_a_dialogue_of_urgent_bytes(self):
        """One after the other and both ways, with ordinary bytes between them: each is urgent."""
        for inline in (0, 1):
            with self.connection("to_server", inline) as (client, server):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, inline)
                for index in range(amount(300)):
                    sender, receiver = (client, server) if index % 2 else (server, client)
                    byte = bytes([index % 256])
                    sender.send(byte, socket.MSG_OOB)
                    peers.wait_event(receiver, select.POLLPRI, f"urgent byte {index}")
                    if inline:
                        self.assertTrue(at_mark(receiver))
                        self.assertEqual(receiver.recv(1), byte)
                    else:
                        self.assertEqual(fetch(receiver), byte)
                    sender.sendall(b"ordinary")
                    self.assertEqual(peers.receive_exactly(receiver, 8), b"ordinary")

    def test_two_urgent_bytes_and_no_reader(self):
        """The last one is urgent, and the one before it is part of the stream."""
        for flow in ("to_server", "to_client"):
            with self.subTest(flow=flow), self.connection(flow, 1) as (sender, receiver):
                sender.sendall(b"ab")
                sender.send(b"1", socket.MSG_OOB)
                self.speak(sender, b"cd", b"ef", b"2")
                peers.wait_event(receiver, select.POLLRDHUP, "the FIN")
                self.assertEqual(receive_marked(receiver), (b"ab1cd2ef", [5]))

    def test_urgent_bytes_without_end_starve_nobody(self):
        """None of them is lost, and another connection continues."""
        count = amount(5_000)
        with self.connection("to_server", 1) as (sender, receiver):
            def flood():
                for index in range(count):
                    sender.send(bytes([index % 251]), socket.MSG_OOB)
                sender.shutdown(socket.SHUT_WR)
            reading, flooding = peers.Task(receive_marked, receiver), peers.Task(flood)
            with self.connection("to_client", 1) as (other_sender, other_receiver):
                for _ in range(50):
                    other_sender.sendall(b"x" * 100)
                    self.assertEqual(peers.receive_exactly(other_receiver, 100), b"x" * 100)
            flooding.finish()
            data, marks = reading.finish()
            self.assertEqual(data, bytes(index % 251 for index in range(count)))
            self.assertIn(count - 1, marks)
        self.wait_idle()


if __name__ == "__main__":
    main()
