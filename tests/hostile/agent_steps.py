"""What a hostile pod does at the sockets through which the node agent reaches it, one function a step. Each returns
whether it got as far as it is meant to: most need a connection of the agent, which may not be there in time.

docs/hand-over.md and docs/broker.md have the protocols."""
import contextlib
import functools
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

import broker_device
import strange_files
from drawing import mutated, number

sys.path.insert(1, str(Path(__file__).parents[1]))

import keeper_record  # pylint: disable=wrong-import-position
from keeper_record import (DESCRIPTORS, DESCRIPTORS_OF_RECORD, FETCH, OFFER,  # pylint: disable=wrong-import-position
                           PARCEL, PARK, REFUSED, TAKEN)

RECORD_KINDS = range(14)
DESCRIPTORS_OF_MESSAGE_MAX = 8
ACCEPT_SECONDS = 0.03
ANSWER_SECONDS = 0.02
RENEWED_SHARE = 0.8  # of the steps that find their connection closed by the agent
LARGE_PARCELS = (300, 1100, 1401, 2500, 5000, 17000)
CHURNS = 20
FLOOD_RECORDS = 500
IN_FLIGHT_OF_MESSAGE = 250  # of 253 that the kernel permits
STEPS = {}  # name to (function, weight)


def step(name, weight=1.0):
    def register(function):
        STEPS[name] = (function, weight)
        return function
    return register


class Session:
    """One process of the pod. Its descriptors are closed when it ends."""

    def __init__(self, rng, listeners, stock, hand_over, deadline):
        self.rng = rng  # of the step
        self.listeners, self.stock, self.hand_over, self.deadline = listeners, stock, hand_over, deadline
        self.made = strange_files.Made(rng)
        self.link = self.device = self.address = None
        self.received = []

    def begin(self, rng):
        self.rng = self.made.rng = rng

    def left(self):
        return max(0.0, self.deadline - time.monotonic())

    def sleep(self, seconds):
        time.sleep(min(seconds, self.left()))

    def accept(self, name, latest=False):
        """A connection of the agent, or None."""
        listener = self.listeners.get(name)
        if listener is None:
            return None
        accepted = None
        wait = min(ACCEPT_SECONDS, self.left())
        with contextlib.suppress(OSError):
            while select.select([listener], [], [], wait)[0]:
                accepted = listener.accept()[0]
                accepted.setblocking(False)
                wait = 0
                if not latest:
                    break
        return accepted

    def keeper(self):
        """The connection of the keeper, mostly one that goes on."""
        if self.link is not None and self.rng.random() < RENEWED_SHARE and ended(self.link):
            self.lose_keeper()
        if self.link is None:
            self.link = self.accept("keeper")
        return self.link

    def lose_keeper(self):
        if self.link is not None:
            self.link.close()
            self.link = None

    def say(self, data, descriptors=(), until=None):
        """One message to the keeper. False if it did not get there."""
        until = self.deadline if until is None else min(until, self.deadline)
        while True:
            try:
                socket.send_fds(self.link, [data], descriptors, socket.MSG_NOSIGNAL)
                return True
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0 or not select.select([], [self.link], [], left)[1]:
                    return False
            except OSError:
                return False

    def say_many(self, count, descriptors):
        """A parcel's descriptors. False if they did not get there."""
        for at in range(0, count, DESCRIPTORS_OF_RECORD):
            part = descriptors[at:min(at + DESCRIPTORS_OF_RECORD, count)]
            if not self.say(keeper_record.pack(DESCRIPTORS, count=len(part)), part):
                return False
        return True

    def hear(self, wait=0.0):
        """A record of the keeper as (kind, number), or None."""
        try:
            if not select.select([self.link], [], [], min(wait, self.left()))[0]:
                return None
            data, descriptors, _, _ = socket.recv_fds(self.link, 64, 8)
        except OSError:
            return None
        self.received += descriptors
        if len(data) < keeper_record.FORMAT.size:
            return None
        heard = keeper_record.unpack(data)
        return heard.kind, heard.count

    def give(self, what, *things):
        """Another process of the pod has these, too."""
        with contextlib.suppress(OSError):
            socket.send_fds(self.hand_over, [what], [thing.fileno() for thing in things])
            return True
        return False

    def give_peers(self):
        """What would let a lingering close end stays open when this process has ended."""
        return bool(self.made.peers) and self.give(b"peers", *self.made.peers[-DESCRIPTORS_OF_MESSAGE_MAX:])


def ended(link):
    poller = select.poll()
    poller.register(link, 0)
    return any(events & (select.POLLHUP | select.POLLERR) for _, events in poller.poll(0))


def drawn_record(session, kind):
    """Nearly valid, or random."""
    rng = session.rng
    if rng.random() < 0.6:
        made = keeper_record.pack(
            kind, rng.choice((0, 0, 1, 2, 3, 4, 5, 7)), rng.choice((0, 0, 1)), rng.choice((0, 0, 1, 2, 4, 8, 15)),
            rng.choice((0, 0, 1, 1, 2, 3, 4, 8, 100, 32768, 32769)), rng.choice((0, 0, 1, *session.stock.all)),
            rng.choice((0, 1, 4, 10, 4096, 64 << 20)), rng.choice((0, 0, *session.stock.all, number(rng, 64))))
    else:
        made = keeper_record.pack(kind, number(rng, 8), number(rng, 8), number(rng, 8), number(rng, 32), number(rng, 32),
                      number(rng, 64), number(rng, 64))
    if rng.random() < 0.1:
        made = mutated(rng, made)
    return made


def step_with(connection, name, weight=1.0):
    """A step that needs what `connection(session)` returns, and does not get far without it."""
    def register(function):
        step(name, weight)(lambda session: connection(session) is not None and function(session))
        return function
    return register


# --- @fairlead-keeper ---

def at_keeper(name, weight=1.0):
    return step_with(Session.keeper, f"keeper/{name}", weight)


@step("keeper/accept", 2)
def accept(session):
    session.lose_keeper()
    return session.keeper() is not None


@step("keeper/close", 2)
def close(session):
    reached = session.link is not None
    session.lose_keeper()
    return reached


def shut(session, how):
    with contextlib.suppress(OSError):
        session.link.shutdown(how)
    return True


for side, way in (("read", socket.SHUT_RD), ("write", socket.SHUT_WR), ("both", socket.SHUT_RDWR)):
    at_keeper(f"shutdown_{side}", 1.5 if side == "read" else 0.7)(functools.partial(shut, how=way))


@step("keeper/listen_again", 0.4)
def listen_again(session):
    """The old name is free only when the other process has closed its listener, too."""
    listener = session.listeners.pop("keeper", None)
    if listener is None:
        return False
    listener.close()
    session.give(b"drop keeper")
    session.lose_keeper()
    made = session.made.keep(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    for _ in range(20):
        with contextlib.suppress(OSError):
            made.bind("\0fairlead-keeper")
            made.listen(session.rng.choice((0, 1, 4)))
            session.listeners["keeper"] = made
            return True
        time.sleep(0.001)
    return False


@step("keeper/shutdown_listener", 0.2)
def shutdown_listener(session):
    listener = session.listeners.pop("keeper", None)
    if listener is None:
        return False
    session.give(b"drop keeper")
    with contextlib.suppress(OSError):
        listener.shutdown(session.rng.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
    return True


def say_record(session, kind):
    count = session.rng.choice((0, 0, 1, 1, 2, 4, 5, DESCRIPTORS_OF_MESSAGE_MAX))
    return session.say(drawn_record(session, kind), session.made.some(count), time.monotonic() + ANSWER_SECONDS)


for every in RECORD_KINDS:
    at_keeper(f"record_{every}", 0.6)(functools.partial(say_record, kind=every))


@at_keeper("junk", 0.6)
def junk(session):
    data = session.rng.randbytes(session.rng.choice((0, 1, 31, 32, 33, 63, 64, 65, 200, 4096)))
    return session.say(data, session.made.some(session.rng.choice((0, 0, 1, 200))), time.monotonic() + ANSWER_SECONDS)


@at_keeper("flood", 0.5)
def flood(session):
    """Records without end, which the agent may not read at once."""
    data = drawn_record(session, session.rng.choice(RECORD_KINDS))
    descriptors = session.made.some(session.rng.choice((0, 0, 1)))
    until = time.monotonic() + ANSWER_SECONDS
    return [session.say(data, descriptors, until) for _ in range(FLOOD_RECORDS) if time.monotonic() < until] != []


def parcel(session, count, sent, descriptors):
    """A parcel of `count` descriptors, of which so many are sent."""
    data = session.rng.choice((b"junk", b"", session.rng.randbytes(4096)))
    description = strange_files.memory(data) if session.rng.random() < 0.9 else session.made.one()
    size = len(data) if session.rng.random() < 0.9 else number(session.rng, 64)
    if not session.say(keeper_record.pack(PARCEL, count=count, size=size), [description]):
        return False
    return session.say_many(sent, descriptors)


@at_keeper("parcel_empty", 1.5)
def parcel_empty(session):
    return parcel(session, 0, 0, [])


@at_keeper("parcel_whole", 2)
def parcel_whole(session):
    count = session.rng.choice((1, 2, 3, 4, 5, 8, 21))
    said = parcel(session, count, count, session.made.some(count))
    if session.rng.random() < 0.3:
        session.give_peers()
    return said


@at_keeper("parcel_cut", 1)
def parcel_cut(session):
    count = session.rng.choice((1, 4, 5, 9, 100, 32768))
    sent = session.rng.randrange(min(count, 40))
    return parcel(session, count, sent, session.made.some(sent))


@at_keeper("parcel_large", 0.8)
def parcel_large(session):
    count = session.rng.choice(LARGE_PARCELS)
    descriptors = session.made.repeated(count)
    if session.rng.random() < 0.5:
        session.give_peers()
    parcel(session, count, count, descriptors)
    if session.rng.random() < 0.5:
        session.made.let_go()
    return True


@at_keeper("hear", 1.5)
def hear(session):
    return session.hear(session.rng.choice((0, 0, ANSWER_SECONDS))) is not None


def answer(session, kind):
    """In any state."""
    return session.say(keeper_record.pack(kind, refusal=session.rng.choice((0, 1, 3, 4, 5)), count=session.rng.choice((0, 1, 4))))


at_keeper("answer_taken")(functools.partial(answer, kind=TAKEN))
at_keeper("answer_refused")(functools.partial(answer, kind=REFUSED))


@at_keeper("take_back", 2)
def take_back(session):
    """Reads what the agent gives back, and says any answer."""
    heard = session.hear(ANSWER_SECONDS)
    whole, count = False, None
    for _ in range(10000):
        if heard is None:
            break
        if heard[0] == PARCEL:
            count = heard[1]
        elif heard[0] == DESCRIPTORS and count is not None:
            count -= heard[1]
        whole = count == 0
        if whole:
            break
        for descriptor in session.received:
            os.close(descriptor)
        session.received = []
        heard = session.hear(ANSWER_SECONDS)
    if session.rng.random() < 0.7:
        kind = session.rng.choice((TAKEN, TAKEN, REFUSED, PARK, PARCEL))
        session.say(keeper_record.pack(kind, refusal=session.rng.choice((0, 3))))
    return whole


def offer(session, count):
    said = session.say(keeper_record.pack(OFFER, count=count), [session.made.one()] if session.rng.random() < 0.8 else [])
    if session.rng.random() < 0.7:
        session.hear(ANSWER_SECONDS)
    return said


@at_keeper("offer_parcel", 1)
def offer_parcel(session):
    count = session.rng.choice((0, 1, 4, 100, 32000, 32700, 32768, 32769, number(session.rng, 32)))
    said = offer(session, count)
    sent = session.rng.choice((0, 0, 1, 4))
    if session.rng.random() < 0.6:
        parcel(session, session.rng.choice((count, sent)) & 0xFFFFFFFF, sent, session.made.some(sent))
    return said


@at_keeper("fetch", 1.5)
def fetch(session):
    """By numbers: those of the process that listens, others, closed ones, or none."""
    rng = session.rng
    count, table = rng.choice(session.stock.tables)
    description = session.stock.description
    if rng.random() < 0.4:
        count = rng.choice((count, count + 1, 0, 32768, number(rng, 32)))
    if rng.random() < 0.3:
        description = rng.choice((0, 1, 2, 9999, session.stock.description, number(rng, 32), *session.stock.all))
    if rng.random() < 0.3:
        table = rng.choice((0, 1, 2, 9999, number(rng, 64), *session.stock.all))
    if rng.random() < 0.5:
        offer(session, count)
    said = session.say(keeper_record.pack(FETCH, count=count, description=description, size=rng.choice((4, 4, 4, 0, 5)), table=table),
                       session.made.some(rng.choice((0, 0, 0, 1))))
    if rng.random() < 0.5:
        session.hear(ANSWER_SECONDS)
    return said


@step("keeper/churn", 0.5)
def churn(session):
    """Accepts and closes at once, again and again."""
    reached = False
    for _ in range(CHURNS):
        accept(session)
        reached = reached or session.link is not None
        if session.left() < ACCEPT_SECONDS:
            break
    return reached


@step("keeper/watchers", 0.5)
def watchers(session):
    """Many epoll instances that all watch many copies of both ends."""
    watched = [one for one in (session.link, session.listeners.get("keeper")) if one is not None]
    copies = [os.dup(one.fileno()) for one in watched for _ in range(session.rng.choice((2, 20)))]
    for _ in range(session.rng.choice((10, 50, 100))):
        instance = session.made.keep(select.epoll())
        for descriptor in copies:
            instance.register(descriptor, select.EPOLLIN | select.EPOLLOUT)
    return watched != []


# --- @fairlead-proxy-0 and -1 ---

class Device(broker_device.Device):
    """On a connection of the broker that the session has accepted."""

    def __init__(self, rng, connection):  # pylint: disable=super-init-not-called
        self.peer = rng.randbytes(8)
        self.channels, self.blanks, self.granted = [], [], []
        self.met = set()
        self.connection, self.listener, self.ring_memory = connection, None, None
        self.tail = self.instance = 0
        self.fabric = None


def device(session):
    """One with a request ring, which is registered after the first record."""
    if session.device is not None:
        return session.device
    connection = session.accept(session.rng.choice(("broker0", "broker0", "broker1")))
    if connection is None:
        return None
    made = Device(session.rng, connection)
    if not select.select([connection], [], [], min(ANSWER_SECONDS, session.left()))[0] or not made.drain() or \
            made.ring_memory is None:
        connection.close()
        return None
    session.device = made
    return made


def at_device(name, weight=1.0):
    """A step at a device, which is there."""
    def register(function):
        def run(session):
            own = device(session)
            if own is None:
                return False
            function(session, own)
            own.ring()
            return True
        step(f"broker/{name}", weight)(run)
        return function
    return register


@at_device("register")
def register_again(session, own):
    own.request(broker_device.REGISTER, layout=session.rng.choice((broker_device.LAYOUT, number(session.rng, 8))),
                channel_bytes=session.rng.choice((broker_device.CHANNEL_BYTES, 0, 1 << 20, (1 << 20) + 1)),
                peer=session.rng.choice((own.peer, bytes(8), session.rng.randbytes(8))))


@at_device("connect", 1.5)
def connect(session, own):
    for _ in range(session.rng.choice((1, 1, 20, 200))):
        own.request(broker_device.CONNECT, peer=session.rng.choice((own.peer, session.rng.randbytes(8), bytes(8))))


@at_device("buffers", 1.5)
def buffers(session, own):
    own.wait_record(min(ANSWER_SECONDS, session.left()))
    for buffer, _ in own.blanks[:session.rng.choice((1, 4, 16))]:
        own.take_and_grant(buffer, session.rng.choice((own.peer, session.rng.randbytes(8))))
        if session.rng.random() < 0.5:
            own.request(broker_device.FREE, instance=own.instance, buffer=buffer)


@at_device("blanks")
def blanks(session, own):
    """What the broker has made is changed: its size, its lock, its seals."""
    own.wait_record(min(ANSWER_SECONDS, session.left()))
    for _, descriptor in own.blanks:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, session.rng.choice((0, 1, 4096, 1 << 20)))


@at_device("slots")
def slots_of_junk(session, own):
    for _ in range(session.rng.choice((1, 1, 3, 300))):
        own.request(number(session.rng, 8), number(session.rng, 8), number(session.rng, 32), session.rng.randbytes(8),
                    session.rng.choice((own.instance, number(session.rng, 64))), number(session.rng, 64),
                    number(session.rng, 16))


@at_device("positions", 0.7)
def positions(session, own):
    own.tail = session.rng.choice((0, own.tail - 1, own.tail + 1, own.tail + 1025, number(session.rng, 64)))
    struct.pack_into("=Q", own.ring_memory, 0, own.tail & ((1 << 64) - 1))
    struct.pack_into("=Q", own.ring_memory, session.rng.choice((0, 64, 128)), number(session.rng, 64))


@at_device("wakes", 0.7)
def wakes(session, own):
    own.ring(session.rng.choice((1, 50, 1000)))


@at_device("read", 0.7)
def read(session, own):
    own.wait_record(min(ANSWER_SECONDS, session.left()))


@at_device("send", 0.5)
def send_to_broker(session, own):
    """Which cannot work."""
    with contextlib.suppress(OSError):
        socket.send_fds(own.connection, [b"x" * 64], session.made.some(session.rng.choice((0, 1, 4))))


@step("broker/close", 0.7)
def close_device(session):
    own = device(session)
    if own is None:
        return False
    with contextlib.suppress(OSError):
        own.connection.shutdown(session.rng.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
    if session.rng.random() < 0.7:
        own.connection.close()
        session.device = None
    return True


# --- @fairlead-client-address ---

def address(session):
    if session.address is None:
        session.address = session.accept("address")
    return session.address


@step("address/accept", 0.7)
def accept_address(session):
    return address(session) is not None


@step_with(address, "address/read", 0.7)
def read_address(session):
    with contextlib.suppress(OSError):
        data, descriptors, _, _ = socket.recv_fds(session.address, 64, 4)
        session.received += descriptors
        return data != b""
    return False


@step_with(address, "address/send", 0.7)
def send_address(session):
    with contextlib.suppress(OSError):
        socket.send_fds(session.address, [session.rng.randbytes(8)], session.made.some(session.rng.choice((0, 1))))
    return True


@step_with(address, "address/close", 0.5)
def close_address(session):
    with contextlib.suppress(OSError):
        session.address.shutdown(session.rng.choice((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR)))
    session.address.close()
    session.address = None
    return True


@step("address/pass_on", 0.7)
def pass_on_address(session):
    return address(session) is not None and session.give(b"links address", session.address)


# --- @fairlead-admin ---

HEAD = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"
ENDLESS_BYTES = 1 << 20


def counts_of(rng):
    """What the agent asks for, with any numbers and reasons."""
    return json.dumps({"total": {"connections": {
        "outbound": {"smcr": {"total": number(rng, 64)}, "tcp": {"total": rng.choice((2, -1, "x", 1e300))}},
        "taken_back": number(rng, 32), "taken_back_lost": number(rng, 32), "parked_nanoseconds": number(rng, 64)},
        "links": {"active": number(rng, 64)}},
        "fallbacks": [{"reason": rng.choice(("no_pnet", "<b>", 7, "a" * 40)), "count": number(rng, 64)}
                      for _ in range(rng.choice((0, 1, 300)))]}).encode()


def at_admin(name, weight=1.0):
    """A step at the question of the agent."""
    def register(function):
        def run(session):
            peer = session.accept("admin", latest=True)
            if peer is None:
                return False
            session.made.keep(peer)
            with contextlib.suppress(OSError):
                function(session, peer)
            if session.rng.random() < 0.6:
                peer.close()
            return True
        step(f"admin/{name}", weight)(run)
        return function
    return register


@at_admin("counts")
def admin_counts(session, peer):
    peer.sendall(HEAD + counts_of(session.rng))


@at_admin("slow", 0.6)
def admin_slow(session, peer):
    for byte in HEAD[:session.rng.randint(1, len(HEAD))]:
        peer.send(bytes([byte]))
        session.sleep(0.001)


@at_admin("endless", 0.6)
def admin_endless(_, peer):
    peer.send(HEAD)
    for _ in range(ENDLESS_BYTES >> 12):
        peer.send(b"x" * 4096)


@at_admin("junk")
def admin_junk(session, peer):
    peer.send(session.rng.choice((b"", session.rng.randbytes(100), mutated(session.rng, HEAD), HEAD + b"[" * 60000,
                                  HEAD + mutated(session.rng, counts_of(session.rng)))))


@at_admin("descriptors")
def admin_descriptors(session, peer):
    socket.send_fds(peer, [HEAD], session.made.some(session.rng.choice((1, 4, 100))))


@at_admin("silence", 0.6)
def admin_silence(_session, _peer):
    """It gets no answer."""


# --- the process ---

@step("process/pass_link", 0.6)
def pass_link(session):
    return session.keeper() is not None and session.give(b"links keeper", session.link)


@step("process/pass_peers", 0.6)
def pass_peers(session):
    session.made.one("tcp_lingering")
    return session.give_peers()


@step("process/die", 0.5)
def die(session):
    session.give(b"dies")
    os.kill(os.getpid(), signal.SIGKILL)


@step("process/in_flight", 0.3)
def in_flight(session):
    """Descriptors that nobody has read, up to the limit of the user."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    session.made.keep(ours, theirs)
    ours.setblocking(False)
    descriptor = session.made.one(session.rng.choice(("null", "udp", "tcp_unconnected")))
    wanted = session.rng.choice((100, 3000, 100000))
    with contextlib.suppress(OSError):
        for _ in range(0, wanted, IN_FLIGHT_OF_MESSAGE):
            socket.send_fds(ours, [b"x"], [descriptor] * IN_FLIGHT_OF_MESSAGE)
            if session.left() <= 0:
                break
    return True


@step("delay/short", 3)
def delay_short(session):
    session.sleep(session.rng.uniform(0, 0.01))
    return True


@step("delay/long", 0.5)
def delay_long(session):
    session.sleep(session.rng.uniform(0.01, 0.08))
    return True


NAMES = sorted(STEPS)
WEIGHTS = [STEPS[name][1] for name in NAMES]
