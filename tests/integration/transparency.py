"""Compares a direct connection with one through two proxies; for transparency_test.py."""
import array
import errno
import fcntl
import select
import socket
import struct

import peers
from harness import ProxyTest, seconds

SO_ZEROCOPY = 60
BLOCKED_MS = 200  # time for which an incomplete connection must stay blocked

SOL, TCP, IP = socket.SOL_SOCKET, socket.IPPROTO_TCP, socket.IPPROTO_IP
# Options that applications set on connected and accepted sockets, with values other than the default.
OPTIONS = {
    "SO_KEEPALIVE": (SOL, socket.SO_KEEPALIVE, 1),
    "SO_OOBINLINE": (SOL, socket.SO_OOBINLINE, 1),
    "SO_PRIORITY": (SOL, socket.SO_PRIORITY, 3),
    "SO_RCVLOWAT": (SOL, socket.SO_RCVLOWAT, 7),
    "SO_RCVBUF": (SOL, socket.SO_RCVBUF, 30_000),
    "SO_SNDBUF": (SOL, socket.SO_SNDBUF, 30_000),
    "SO_LINGER": (SOL, socket.SO_LINGER, struct.pack("ii", 1, 3)),
    "SO_RCVTIMEO": (SOL, socket.SO_RCVTIMEO, struct.pack("ll", 5, 0)),
    "SO_SNDTIMEO": (SOL, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0)),
    "SO_INCOMING_CPU": (SOL, 49, 0),
    "SO_BUSY_POLL": (SOL, 46, 0),
    "SO_ZEROCOPY": (SOL, SO_ZEROCOPY, 1),
    "SO_TIMESTAMP": (SOL, 29, 1),
    "TCP_NODELAY": (TCP, socket.TCP_NODELAY, 1),
    "TCP_CORK": (TCP, socket.TCP_CORK, 1),
    "TCP_QUICKACK": (TCP, socket.TCP_QUICKACK, 1),
    "TCP_KEEPIDLE": (TCP, socket.TCP_KEEPIDLE, 17),
    "TCP_KEEPINTVL": (TCP, socket.TCP_KEEPINTVL, 5),
    "TCP_KEEPCNT": (TCP, socket.TCP_KEEPCNT, 4),
    "TCP_USER_TIMEOUT": (TCP, socket.TCP_USER_TIMEOUT, 7000),
    "TCP_NOTSENT_LOWAT": (TCP, socket.TCP_NOTSENT_LOWAT, 16_384),
    "TCP_LINGER2": (TCP, socket.TCP_LINGER2, 9),
    "TCP_SYNCNT": (TCP, socket.TCP_SYNCNT, 3),
    "TCP_WINDOW_CLAMP": (TCP, socket.TCP_WINDOW_CLAMP, 40_000),
    "TCP_CONGESTION": (TCP, socket.TCP_CONGESTION, b"reno"),
    "IP_TOS": (IP, socket.IP_TOS, 0x10),
    "IP_TTL": (IP, socket.IP_TTL, 33),
    "IP_MTU_DISCOVER": (IP, 10, 2),
}
PRIVILEGED_OPTIONS = {  # need CAP_NET_ADMIN or CAP_NET_RAW
    "SO_MARK": (SOL, socket.SO_MARK, 5),
    "SO_BINDTODEVICE": (SOL, socket.SO_BINDTODEVICE, b"lo\0"),
}


def read_back(sock, options):
    """Results of getsockopt after setsockopt, or the error's name; by option."""
    told = {}
    for name, (level, option, value) in options.items():
        try:
            sock.setsockopt(level, option, value)
            told[name] = sock.getsockopt(level, option, 32)
        except OSError as error:
            told[name] = errno.errorcode[error.errno]
    return told


def readable(sock, timeout=10):
    return bool(select.select([sock], [], [], seconds(timeout))[0])


def count_of(sock, request):
    """FIONREAD or TIOCOUTQ: bytes that wait in a socket."""
    number = array.array("i", [0])
    fcntl.ioctl(sock, request, number)
    return number[0]


def error_of(action):
    """The name of the error that an action ends with, or None."""
    try:
        action()
        return None
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


class Transparency(ProxyTest):
    def serve(self, handle=peers.echo, listen=None):
        """A server, and two proxies before it; `listen(sock)` sets options on its listener."""
        server = peers.serve(self, handle)
        if listen:
            listen(server.listener)
        self.start_pair(server.address)
        self.ways = (server.address, self.entry)
        return server

    def listen(self, backlog=16, prepare=None):
        """A listener for a test that accepts by itself, and two proxies before it."""
        made = socket.socket()
        self.addCleanup(made.close)
        if prepare:
            prepare(made)
        made.bind(("127.0.0.1", 0))
        made.listen(backlog)
        made.settimeout(seconds(20))
        self.start_pair(made.getsockname())
        self.ways = (made.getsockname(), self.entry)
        return made

    def pair(self, listener, way, prepare=None):
        """(the client's socket, the server's) of one connection. The first byte is "!": it opens both halves."""
        client = socket.socket()
        self.addCleanup(client.close)
        if prepare:
            prepare(client)
        client.settimeout(seconds(20))
        client.connect(way)
        client.sendall(b"!")
        server, _ = listener.accept()
        self.addCleanup(server.close)
        server.settimeout(seconds(20))
        self.assertEqual(server.recv(1), b"!")
        return client, server

    def same(self, ask):
        """Checks that `ask(way)` returns the same without proxies and with them; returns that value."""
        direct, through = (ask(way) for way in self.ways)
        self.assertEqual(through, direct)
        self.assert_carried()
        return direct

    def same_of_pairs(self, ask):
        """Like same(), for `ask(client, server)` with both ends of a new connection."""
        listener = self.listen()
        return self.same(lambda way: ask(*self.pair(listener, way)))

    def differs(self, ask, direct, through, carried=True):
        self.assertEqual(ask(self.ways[0]), direct)
        self.assertEqual(ask(self.ways[1]), through)
        if carried:
            self.assert_carried()
