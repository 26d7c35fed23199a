"""Descriptors of every kind that a process can send to another one, for agent_steps.py. Each function makes one. What
has to stay open beside it is kept in `made`; `made.peers` is what another process may keep open, too."""
import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import time

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
LINGER_SECONDS = 3600
NESTED_MAX = 8
LINGERING_SHARE = 0.3  # of large parcels


class Made:
    """What a session has made."""

    def __init__(self, rng):
        self.rng = rng
        self.kept, self.peers = [], []
        self.kinds = {}  # how many of each

    def keep(self, *things):
        self.kept += things
        return things[0]

    def one(self, kind=None):
        """A descriptor of this kind, or of any."""
        kind = kind or self.rng.choice(KINDS)
        made = MAKERS[kind](self)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return made

    def some(self, count):
        """Different ones, or the same one many times."""
        if count and self.rng.random() < 0.2:
            return [self.one()] * count
        return [self.one() for _ in range(count)]

    def repeated(self, count):
        """Few different ones, repeated. The first close of them may linger."""
        few = [self.one("tcp_lingering")] * (self.rng.random() < LINGERING_SHARE)
        few += [self.one() for _ in range(self.rng.randint(1, 4))]
        return [few[index % len(few)] for index in range(count)]

    def let_go(self):
        """Whoever has a copy of its TCP sockets now has the last one. Their peers stay."""
        for thing in self.kept:
            if isinstance(thing, socket.socket) and thing.family == socket.AF_INET and thing not in self.peers:
                thing.close()


def memory(data=b"junk", seals=SEALS):
    descriptor = os.memfd_create("made", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def numbers_file(numbers):
    """A sealed file with the numbers of descriptors."""
    return memory(b"".join(struct.pack("=I", number & 0xFFFFFFFF) for number in numbers))


def tcp_listening(made):
    listener = made.keep(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(4)
    return listener.fileno()


def tcp_pair(made):
    """Both ends; the second is what another process may keep."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        ours = socket.create_connection(listener.getsockname(), timeout=1)
        theirs = listener.accept()[0]
    made.keep(ours, theirs)
    return ours, theirs


def tcp_connected(made):
    ours, theirs = tcp_pair(made)
    made.peers.append(theirs)
    return ours.fileno()


def tcp_lingering(made):
    """Its last close waits until the peer has read everything."""
    ours, theirs = tcp_pair(made)
    made.peers.append(theirs)
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):
            ours.send(bytes(1 << 16))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
    return ours.fileno()


def tcp_unconnected(made):
    return made.keep(socket.socket()).fileno()


def udp(made):
    return made.keep(socket.socket(type=socket.SOCK_DGRAM)).fileno()


def nested(made, kind):
    """A Unix socket with unread descriptors in it."""
    ours, theirs = made.keep(*[socket.socketpair(socket.AF_UNIX, kind)])
    made.keep(ours, theirs)
    ours.setblocking(False)
    inner = [made.one(made.rng.choice(PLAIN)) for _ in range(made.rng.randint(1, NESTED_MAX))]
    with contextlib.suppress(OSError):  # the user has too many in flight
        for _ in range(made.rng.randint(1, 4)):
            socket.send_fds(ours, [b"x"], inner)
    return theirs.fileno()


def unix_stream(made):
    return nested(made, socket.SOCK_STREAM)


def unix_seqpacket(made):
    return nested(made, socket.SOCK_SEQPACKET)


def pipe(made):
    ends = os.pipe()
    return made.rng.choice(ends)


def memfd_sealed(_):
    return memory()


def memfd_unsealed(made):
    return memory(made.rng.randbytes(made.rng.choice((1, 40, 4096))), 0)


def eventfd(made):
    return os.eventfd(made.rng.choice((0, 1)))


def epoll(made):
    return made.keep(select.epoll()).fileno()


def timerfd(_):
    return ctypes.CDLL(None).timerfd_create(time.CLOCK_MONOTONIC, 0)


def null(_):
    return os.open("/dev/null", os.O_RDWR)


def directory(_):
    return os.open("/", os.O_RDONLY | os.O_DIRECTORY)


MAKERS = {maker.__name__: maker for maker in (
    tcp_connected, tcp_listening, tcp_lingering, tcp_unconnected, udp, unix_stream, unix_seqpacket, pipe, memfd_sealed,
    memfd_unsealed, eventfd, epoll, timerfd, null, directory)}
KINDS = sorted(MAKERS)
PLAIN = ("tcp_listening", "tcp_unconnected", "udp", "pipe", "memfd_sealed", "eventfd", "epoll", "null")
