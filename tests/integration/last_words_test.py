"""Data that an application sent before its connection was reset reaches the other one before the reset.

The proxies learn of final data and of resets in every order: a proxy that is stopped meanwhile finds
all of them at once when it continues."""
import contextlib
import itertools
import os
import queue
import select
import signal
import socket
import struct
import threading
from pathlib import Path

import peers
from harness import VARIANT, ProxyTest, amount, listener, main, seconds, wait_until

REFUSAL = b"-ERR Protocol error: too big mbulk count string\r\n"
WHO_IS_STOPPED = ((), ("in",), ("out",), ("in", "out"))


def until_reset(sock):
    """All received bytes, and whether a FIN or a RST ended them."""
    parts = []
    try:
        while part := sock.recv(peers.BLOCK_BYTES):
            parts.append(part)
        return b"".join(parts), "fin"
    except (ConnectionResetError, BrokenPipeError):
        return b"".join(parts), "reset"


def wait_input(sock):
    """Waits until the socket has unread data."""
    if not select.select([sock], [], [], seconds(20))[0]:
        raise AssertionError("no input came")


class Rendezvous:
    """The server's side of a conversation, one step at each call of the test."""

    def __init__(self):
        self.accepted = queue.Queue()

    def handle(self, sock):
        done = threading.Event()
        self.accepted.put((sock, done))
        done.wait(seconds(120))

    def meet(self):
        """The socket, and the event that ends the conversation."""
        return self.accepted.get(timeout=seconds(20))


class LastWords(ProxyTest):
    def setUp(self):
        super().setUp()
        self.meeting = Rendezvous()
        server = peers.serve(self, self.meeting.handle)
        self.start_pair(server.address)

    @contextlib.contextmanager
    def connection(self):
        """Both ends of a connection that has carried a byte each way."""
        with peers.connect(self.entry) as client:
            server, done = self.meeting.meet()
            try:
                client.sendall(b"h")
                self.assertEqual(peers.receive_exactly(server, 1), b"h")
                server.sendall(b"i")
                self.assertEqual(peers.receive_exactly(client, 1), b"i")
                yield client, server
            finally:
                server.close()
                done.set()

    @contextlib.contextmanager
    def stopped(self, names):
        """The named proxies are stopped in this block, and learn of all its events at once."""
        proxies = [proxy for proxy in self.proxies if proxy.name in names]
        for proxy in proxies:
            os.kill(proxy.pid, signal.SIGSTOP)
            stat = Path(f"/proc/{proxy.pid}/stat")
            wait_until(lambda s=stat: s.read_text().rsplit(")", 1)[1].split()[0] == "T",
                       f"{proxy.name} to stop")
        try:
            yield
        finally:
            for proxy in proxies:
                os.kill(proxy.pid, signal.SIGCONT)

    def carried(self, proxy, flow):
        direction = "outbound" if proxy is self.outbound else "inbound"
        return proxy.metrics().value("fairlead_bytes_total", direction=direction, flow=flow)

    def passed_on(self, proxy):
        """A counter that grows when `proxy` has announced bytes to its peer."""
        if VARIANT == "tcp":
            return self.carried(proxy, "tx")
        metrics = proxy.metrics()
        messages = metrics.value("fairlead_cdc_messages_total", result="sent")
        # Too few bytes for SMC-R, where both have announced frames: programs of other tests in this cgroup may not.
        return messages + metrics.value("fairlead_bytes_total", transport="short", flow="tx")

    def check_last_words_in_every_order(self, proxy, sides):
        """`sides(client, server)`: the one that speaks and closes with unread input, and the other one, which may still
        send. That one is beside `proxy`."""
        for stop, speaks_on, length in itertools.product(WHO_IS_STOPPED, (False, True), (1, 1000, 50_000)):
            words = b"w" * length
            with self.subTest(stop=stop, speaks_on=speaks_on, length=length), self.connection() as ends:
                leaving, staying = sides(*ends)
                staying.sendall(b"unread")
                wait_input(leaving)
                with self.stopped(stop):
                    if speaks_on:
                        before = self.carried(proxy, "tx") if proxy.name not in stop else None
                        staying.sendall(b"more" * 100)
                        if before is not None:
                            wait_until(lambda b=before: self.carried(proxy, "tx") > b, "the words to be passed on")
                    leaving.sendall(words)
                    leaving.close()
                self.assertEqual(until_reset(staying), (words, "reset"))
        self.assert_carried()
        self.wait_idle()

    def test_a_reply_before_a_reset_arrives_in_every_order(self):
        self.check_last_words_in_every_order(self.outbound, lambda client, server: (server, client))

    def test_a_request_before_a_reset_arrives_in_every_order(self):
        self.check_last_words_in_every_order(self.inbound, lambda client, server: (client, server))

    def test_a_fin_before_a_reset_arrives_too(self):
        """A server that answers and closes, and whose kernel then rejects later data."""
        for stop in WHO_IS_STOPPED:
            with self.subTest(stop=stop), self.connection() as (client, server):
                with self.stopped(stop):
                    server.sendall(b"bye")
                    server.close()
                    client.sendall(b"too late")
                self.assertEqual(until_reset(client), (b"bye", "fin"))
                with self.assertRaises((ConnectionResetError, BrokenPipeError)):
                    while True:
                        client.sendall(b"much too late")

    def test_a_client_that_never_stops_speaking_reads_the_refusal(self):
        """Like a Redis server with invalid input: it reads a part, answers, and closes."""
        for _ in range(amount(100)):
            with self.connection() as (client, server):
                def refuse(sock):
                    peers.receive_exactly(sock, 65536)
                    sock.sendall(REFUSAL)
                    sock.close()
                refusing = peers.Task(refuse, server)
                with self.assertRaises((ConnectionResetError, BrokenPipeError)):
                    while True:
                        client.sendall(b"x" * 10_000)
                self.assertEqual(until_reset(client)[0], REFUSAL)
                refusing.finish()
        self.assert_carried()
        self.wait_idle()

    def test_what_a_dead_peer_announced_arrives(self):
        """A proxy is killed right after it has delivered the last byte."""
        with self.connection() as (client, server):
            # Over TCP, the death of a proxy resets what has lasted (relay::kLastingFrom).
            wait_until(lambda: all(row["age_seconds"] > 1.5 for row in self.inbound.get_json("/connections")["connections"]),
                       "the connection to last")
            before = self.passed_on(self.inbound)
            with self.stopped(["out"]):
                server.sendall(b"w" * 10_000)
                wait_until(lambda: self.passed_on(self.inbound) > before,
                           "the server's words to be passed on")
                self.inbound.kill()
            said, end = until_reset(client)
            self.assertEqual(said, b"w" * 10_000)
            self.assertEqual(end, "reset")

    def test_a_stalled_reader_learns_of_the_reset(self):
        """The wait for a reader that has stopped reading is bounded."""
        with self.connection() as (client, server):
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    client.send(bytes(peers.BLOCK_BYTES))
            client.setblocking(True)
            peers.reset(client)
            peers.wait_event(server, 0, "the server is not told of the reset")
            self.assertEqual(until_reset(server)[1], "reset")
        self.wait_idle()


class FullBacklog(ProxyTest):
    """The server does not accept yet: a sidecar is still connecting to it."""

    def setUp(self):
        super().setUp()
        self.listener = socket.socket()
        self.addCleanup(self.listener.close)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(0)
        self.listener.settimeout(seconds(30))
        self.first = peers.connect(self.listener.getsockname())
        self.addCleanup(self.first.close)

        def full():
            # tcpi_unacked and tcpi_sacked of a listener: connections to accept, and the backlog
            waiting, backlog = struct.unpack_from("II", self.listener.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_INFO, 32), 24)
            return waiting > backlog
        wait_until(full, "the backlog to be full")

    def check(self, proxy, request):
        """A client that sends `request` through `proxy` and is reset before the server accepts."""
        with peers.connect(self.entry) as client:
            client.sendall(request)
            wait_until(lambda: all(p.get_json("/connections")["connections"] for p in self.proxies),
                       "the connection to be in all proxies")
            peers.reset(client)
        # The event of the reset precedes the first request, or comes with it.
        for _ in range(2):
            proxy.get("/connections")
        self.listener.accept()[0].close()
        with self.listener.accept()[0] as server:
            server.settimeout(seconds(20))
            self.assertEqual(until_reset(server), (request, "reset"))
        self.wait_idle()

    def check_outbound(self, request):
        proxy = self.start("out", [listener("out", "outbound", self.listener.getsockname())])
        self.entry = proxy.address("out")
        self.check(proxy, request)

    def test_the_clients_sidecar_learns_of_the_reset_while_it_connects(self):
        self.check_outbound(b"fire and forget")

    def test_a_client_that_says_nothing_and_is_reset_is_shown_to_the_server(self):
        self.check_outbound(b"")

    def test_the_servers_sidecar_learns_of_the_reset_while_it_connects(self):
        self.start_pair(self.listener.getsockname())
        self.check(self.inbound, b"fire and forget")


if __name__ == "__main__":
    main()
