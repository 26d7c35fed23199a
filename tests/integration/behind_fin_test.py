"""What an application sent before its FIN reaches the other one, whatever comes behind the FIN, while that one reads nothing.

The writer ends its stream and is gone, with a reset, which its kernel sends also in answer to late bytes and probes once it
has forgotten the connection. The reader stalls for longer than the proxies wait for a reader before a reset."""
import array
import contextlib
import fcntl
import itertools
import socket
import termios
import threading
import time

import peers
from harness import ProxyTest, listener, main, seconds, wait_until
from last_words_test import Rendezvous
from pod_pair import SERVER, Pods

COUNT = 300_000
SMALL_BUFFER = 4096
# Longer than relay::kResetDelay.
STALL = 2.5
OFF = {"smc": {"enabled": False}}
FRAMES = {"smc": {"defer_bytes": "64KiB"}}
# Options of the client's proxy and of the server's; None: there is no proxy on that side.
MODES = {
    "once": ({}, {}),
    "staged": ({"other_devices": {"staged": True}}, {"other_devices": {"staged": True}}),
    "default": (FRAMES, FRAMES),
    "declined": ({"smc": {"ueids": ["ONE"]}}, {"smc": {"ueids": ["TWO"]}}),
    "declined behind frames": ({"smc": {"ueids": ["ONE"], "defer_bytes": "64KiB"}},
                               {"smc": {"ueids": ["TWO"], "defer_bytes": "64KiB"}}),
    "off": (OFF, OFF),
    "only the client's": (FRAMES, None),
    "only the server's": (None, FRAMES),
}


def unacknowledged(sock):
    """Bytes that the kernel of the other end has not acknowledged, the FIN included."""
    count = array.array("i", [0])
    fcntl.ioctl(sock, termios.TIOCOUTQ, count)
    return count[0]


def speak_and_go(sock, count, seed):
    """Sends, ends, and is reset behind that."""
    sent = peers.send_random(sock, count, seed)
    sock.shutdown(socket.SHUT_WR)
    wait_until(lambda: unacknowledged(sock) == 0, "the FIN to arrive")
    peers.reset(sock)
    return sent


def listen_late(sock, stall=STALL):
    time.sleep(stall)  # nothing happens that could be waited for: that is what is tested
    return peers.receive_digest(sock)


class BehindAFin(ProxyTest):
    def start_mode(self, mode):
        """Proxies of a mode, the address for clients, and what gives the server's side of a connection."""
        client, server = MODES[mode]
        meeting = Rendezvous()
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        made.bind(("127.0.0.1", 0))
        made.listen(64)
        application = peers.serve(self, meeting.handle, listener=made)
        entry = application.address
        if server is not None:
            proxy = self.start(f"in{len(self.proxies)}", [listener("in", "inbound", entry)], server)
            entry = proxy.address("in")
        if client is not None:
            proxy = self.start(f"out{len(self.proxies)}", [listener("out", "outbound", entry)], client)
            entry = proxy.address("out")
        return entry, meeting

    @contextlib.contextmanager
    def connection(self, entry, meeting):
        """Both ends of a connection that has carried a byte each way, and an event that ends the server's."""
        with peers.connect(entry, receive_buffer=SMALL_BUFFER) as client:
            client.sendall(b"h")
            server, done = meeting.meet()
            try:
                self.assertEqual(peers.receive_exactly(server, 1), b"h")
                server.sendall(b"i")
                self.assertEqual(peers.receive_exactly(client, 1), b"i")
                yield client, server
            finally:
                done.set()

    def check(self, mode):
        """All cases at once, because they only wait."""
        entry, meeting = self.start_mode(mode)
        with contextlib.ExitStack() as stack:
            cases = []
            for client_speaks, count in itertools.product((True, False), (COUNT, COUNT // 4)):
                client, server = stack.enter_context(self.connection(entry, meeting))
                writer, reader = (client, server) if client_speaks else (server, client)
                cases.append((client_speaks, count, peers.Task(listen_late, reader), peers.Task(speak_and_go, writer, count, 3)))
            for client_speaks, count, listening, speaking in cases:
                with self.subTest(client_speaks=client_speaks, count=count):
                    sent = speaking.finish()
                    self.assertEqual(listening.finish(), sent)
        self.wait_idle()

    def test_over_smcr_from_the_first_byte(self):
        self.check("once")

    def test_over_smcr_through_a_send_ring(self):
        self.check("staged")

    def test_in_frames_that_earn_smcr(self):
        self.check("default")

    def test_over_tcp_behind_a_decline(self):
        self.check("declined")

    def test_over_tcp_behind_frames_and_a_decline(self):
        self.check("declined behind frames")

    def test_over_tcp(self):
        self.check("off")

    def test_without_a_sidecar_of_the_server(self):
        self.check("only the client's")

    def test_without_a_sidecar_of_the_client(self):
        self.check("only the server's")


class ForgottenFin(Pods):
    """The client has closed, and its kernel has forgotten the connection: it answers the sidecar's probe with a reset."""

    def check(self, **options):
        self.options = options
        client = self.names[0]
        self.inside(client, "sysctl", "-w", "net.ipv4.tcp_fin_timeout=1")
        self.redirect()
        self.start_pods()
        read_on = threading.Event()

        def listen_later(sock):
            read_on.wait(seconds(120))
            return peers.receive_digest(sock)
        server = self.serve(SERVER, listen_later)
        with self.namespace(client):
            sock = peers.connect(server.address)
        with sock:
            sent = peers.send_random(sock, COUNT, 4)
        wait_until(lambda: self.outbound.get_json("/connections")["connections"] == [],
                   "the client's sidecar to learn of it", 60)
        time.sleep(STALL)
        read_on.set()
        self.assertEqual(server.results(), [sent])
        self.wait_idle()

    def test_over_smcr(self):
        self.check()

    def test_in_frames(self):
        self.check(**FRAMES)

    def test_over_tcp(self):
        self.check(**OFF)


if __name__ == "__main__":
    main()
