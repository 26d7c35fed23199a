"""What a simulation or a packet capture recorded: messages between the two ends of links, in the order in which things
happened.

The two queue pairs of a link belong to the sides of a link group. A CDC message belongs to a connection, which an Accept
and a Confirm announced.
"""
import dataclasses
import socket
import struct
import sys
from pathlib import Path
from typing import Optional

TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS / "captures"), str(TESTS / "lab" / "guest")]

import pcap  # pylint: disable=wrong-import-position
import roce  # pylint: disable=wrong-import-position

CLIENT, SERVER = 0, 1
CLC_ACCEPT, CLC_CONFIRM, CLC_LINK_BYTES = 2, 3, 51
ELEMENT_BYTES_MIN = 16384
CDC, CDC_BYTES = 0xfe, 44
VALIDATION = 0x08
LLC_KIND, CONFIRM_LINK, ADD_LINK, DELETE_LINK = 0x1f, 0x01, 0x02, 0x04
RESPONSE, REJECTED, ALL_LINKS = 0x80, 0x40, 0x40
WRITES = range(0x06, 0x0c)  # opcodes of RoCE
STREAM_EVENTS = ("read", "fin", "sent", "shut", "error", "close")
CLC_BEGIN = bytes.fromhex("e2d4c3")
GID_OF_IPV4 = bytes(10) + b"\xff\xff"


class NoRecording(Exception):
    """A line or packet is not what its format says; the text names it."""


@dataclasses.dataclass(eq=False)
class QueuePair:
    address: tuple  # GID in hexadecimal, and number
    peer_address: tuple
    arrived: list = dataclasses.field(default_factory=list)  # messages that nobody has taken yet
    posted: list = dataclasses.field(default_factory=list)   # messages with their work ids, oldest first
    under_way: list = dataclasses.field(default_factory=list)
    writes: bool = False  # it has posted RDMA WRITEs


@dataclasses.dataclass(eq=False)
class Message:
    data: bytes
    work_id: int = 0
    connection: Optional["Connection"] = None
    side: int = CLIENT  # that sent it

    # Of a CDC message.
    @property
    def sequence(self):
        return int.from_bytes(self.data[2:4], "big")

    @property
    def producer(self):
        return struct.unpack_from(">HI", self.data, 10)

    @property
    def consumer(self):
        return struct.unpack_from(">HI", self.data, 18)

    @property
    def is_validation(self):
        return bool(self.data[24] & VALIDATION)

    @property
    def state(self):
        return self.data[25]


@dataclasses.dataclass(eq=False)
class Connection:
    addresses: list      # of the queue pairs that client and server named
    tokens: list         # that client and server chose
    element_bytes: list  # of the client's and the server's element
    events: list = dataclasses.field(default_factory=list)
    writes: bool = False  # its bytes go by RDMA WRITE, and not by stores into shared memory
    tcp: object = None    # on which it was announced
    began: int = 0        # when it was


@dataclasses.dataclass(eq=False)
class Tcp:
    """A TCP connection of a simulation, with what each end does: (when, kind, values), by the names of event_file.h."""
    source: int
    target: int
    port: int
    ends: list = dataclasses.field(default_factory=lambda: [[], []])


@dataclasses.dataclass(eq=False)
class Event:
    """kind: post, deliver, take or done, of a message; fault, broken, gone, failed or fail, of a queue pair."""
    kind: str
    queue_pair: QueuePair
    message: Optional[Message] = None
    at: int = 0  # a number that only grows, for all that happens


def added_by(add_link):
    """The address of the queue pair that an ADD_LINK names; its number is 0 in a request for one."""
    return add_link[12:28].hex(), int.from_bytes(add_link[28:31], "big")


class Groups:
    """Which queue pairs belong to one link group (a union-find), and to which side of it."""

    def __init__(self):
        self.parent, self.side = {}, {}

    def find(self, address):
        while self.parent.setdefault(address, address) != address:
            self.parent[address] = address = self.parent[self.parent[address]]
        return address

    def join(self, one, other):
        self.parent[self.find(one)] = self.find(other)

    def place(self, address, side):
        self.side.setdefault(address, side)


class Recording:
    """Takes what happened, one thing after the other, and sorts it by connection and by link group."""

    def __init__(self):
        self.queue_pairs, self.groups, self.connections = {}, Groups(), []
        self.events = []    # all of them; those of a connection stand with it, too
        self.offers = {}    # of a TCP connection: what the server's Accept says
        self.by_token = {}  # (side, token): its connections
        self.of_kernels = self.returns = False
        self.at = 0
        self.tcp = {}      # of a simulation, by number, in the order in which they were dialled
        self.proxies = []  # (when, pod, 0: ends its connections, 1: is gone)

    def connect(self, key, address, peer_address):
        self.queue_pairs[key] = QueuePair(address, peer_address)
        self.groups.join(address, peer_address)

    def of(self, key):
        if key not in self.queue_pairs:
            raise NoRecording(f"queue pair {key} does something before it is connected")
        return self.queue_pairs[key]

    def side_of(self, queue_pair):
        """None if nothing has told it."""
        side, peers = self.groups.side.get(queue_pair.address), self.groups.side.get(queue_pair.peer_address)
        return side if side is not None else None if peers is None else 1 - peers

    def clc(self, tcp, data):
        if len(data) < CLC_LINK_BYTES or data[4] not in (CLC_ACCEPT, CLC_CONFIRM):
            return
        said = ((data[16:32].hex(), int.from_bytes(data[38:41], "big")), int.from_bytes(data[46:50], "big"),
                ELEMENT_BYTES_MIN << (data[50] >> 4))
        if data[4] == CLC_ACCEPT:
            self.offers[tcp] = said
        elif tcp in self.offers:
            connection = Connection(*map(list, zip(said, self.offers.pop(tcp))), tcp=tcp, began=self.at)
            self.connections.append(connection)
            self.groups.join(*connection.addresses)
            for side in (CLIENT, SERVER):
                self.groups.place(connection.addresses[side], side)
                self.by_token.setdefault((side, connection.tokens[side]), []).append(connection)

    def post(self, queue_pair, work_id, data):
        message = Message(data, work_id)
        self.identify(queue_pair, message)
        queue_pair.posted.append(message)
        queue_pair.under_way.append(message)
        self.happened("post", queue_pair, message)

    def identify(self, queue_pair, message):
        side = self.side_of(queue_pair)
        if side is None:
            return
        message.side = side
        data = message.data
        if data[0] == CDC and len(data) == CDC_BYTES:
            for connection in reversed(self.by_token.get((1 - side, int.from_bytes(data[4:8], "big")), ())):
                if self.groups.find(connection.addresses[side]) == self.groups.find(queue_pair.address):
                    message.connection = connection
                    connection.writes = connection.writes or queue_pair.writes
                    return
        elif data[0] & LLC_KIND == ADD_LINK and not data[3] & REJECTED:
            added = added_by(data)
            if added[1]:
                self.groups.join(added, queue_pair.address)
                self.groups.place(added, side)

    def deliver(self, sender, receiver):
        if not sender.under_way:
            raise NoRecording(f"a message of {sender.address} arrives that was not posted")
        message = sender.under_way.pop(0)
        receiver.arrived.append(message)
        self.happened("deliver", sender, message)

    def take(self, queue_pair):
        if not queue_pair.arrived:
            raise NoRecording(f"{queue_pair.address} takes a message that has not arrived")
        self.happened("take", queue_pair, queue_pair.arrived.pop(0))

    def done(self, queue_pair, work_id):
        while queue_pair.posted and queue_pair.posted[0].work_id <= work_id:
            self.happened("done", queue_pair, queue_pair.posted.pop(0))

    def happened(self, kind, queue_pair, message=None):
        event = self.note(kind, queue_pair, message)
        if message is None:
            root = self.groups.find(queue_pair.address)
            for connection in self.connections:
                if self.groups.find(connection.addresses[0]) == root:
                    connection.events.append(event)
        elif message.connection is not None:
            message.connection.events.append(event)

    def note(self, kind, queue_pair, message=None):
        """Of what no connection has to know."""
        self.at += 1
        self.events.append(Event(kind, queue_pair, message, self.at))
        return self.events[-1]

    def stream(self, tcp, side, kind, *values):
        self.at += 1
        self.tcp[tcp].ends[side].append((self.at, kind, values))


def simulated(lines):
    """(seed, recording) for each run in a file of `simulate --events`."""
    seed, recording = None, None
    for line in lines:
        words = line.split()
        try:
            kind, key = words[0], int(words[1])
            if kind == "seed":
                if recording is not None:
                    yield seed, recording
                seed, recording = key, Recording()
            else:
                record(recording, kind, key, words[2:])
        except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoRecording(f"not an event of a simulation: {line.strip()[:80]!r}") from error
    if recording is None:
        raise NoRecording("no event of a simulation: the first line is not a seed")
    yield seed, recording


def record(recording, kind, key, values):
    if kind == "connect":
        recording.connect(key, (values[2], int(values[3])), (values[0], int(values[1])))
    elif kind == "clc":
        data = bytes.fromhex(values[1])
        recording.stream(key, int(values[0]), kind, data[4] if len(data) > 4 else 0)
        recording.clc(key, data)
    elif kind == "tcp":
        recording.tcp[key] = Tcp(*map(int, values))
    elif kind == "framed":
        recording.stream(key, int(values[0]), kind, bytes.fromhex(values[1]))
    elif kind in STREAM_EVENTS:
        side, *more = map(int, values)
        recording.stream(key, side, kind, *more)
    elif kind == "proxy":
        recording.at += 1
        recording.proxies.append((recording.at, key, int(values[0])))
    elif key not in recording.queue_pairs:
        if kind not in ("gone", "broken", "post", "fail"):  # of one that was never connected
            recording.of(key)
    elif kind == "post":
        recording.post(recording.of(key), int(values[0]), bytes.fromhex(values[1]))
    elif kind == "write":
        recording.of(key).writes = True
    elif kind == "deliver":
        recording.deliver(recording.of(key), recording.of(int(values[0])))
    elif kind == "take":
        recording.take(recording.of(key))
    elif kind == "done":
        if values[1] == "0":
            recording.done(recording.of(key), int(values[0]))
        else:
            recording.note("failed", recording.of(key))
    elif kind == "fail":
        recording.note("fail", recording.of(key))
    elif kind in ("fault", "broken", "gone"):
        recording.happened(kind, recording.of(key))
    else:
        raise ValueError(kind)


class Capture:
    """Feeds a recording with what two kernels sent each other. A message counts as posted, arrived and taken when its
    packet passes, and as completed when it is acknowledged."""

    def __init__(self):
        self.recording = Recording()
        self.recording.of_kernels = True
        self.sent = {}     # address of the receiving queue pair: packet sequence number of its last message
        self.offers = {}   # link number: queue pair that an ADD_LINK request names
        self.numbers = {}  # link number: a queue pair of it

    def connect(self, one, other):
        if one not in self.recording.queue_pairs:
            self.recording.connect(one, one, other)
            self.recording.connect(other, other, one)

    def take(self, datagram):
        packet = roce.parse(datagram)
        if packet is not None:
            self.roce(packet)
        elif datagram[9] == socket.IPPROTO_TCP:
            self.tcp(datagram)

    def tcp(self, datagram):
        segment = datagram[(datagram[0] & 15) * 4:int.from_bytes(datagram[2:4], "big")]
        data = segment[(segment[12] >> 4) * 4:]
        if not data.startswith(CLC_BEGIN):
            return
        ends = frozenset(((datagram[12:16], segment[:2]), (datagram[16:20], segment[2:4])))
        self.recording.clc(ends, data)
        if data[4] == CLC_CONFIRM and self.recording.connections:
            self.connect(*self.recording.connections[-1].addresses)

    def roce(self, packet):
        address = ((GID_OF_IPV4 + socket.inet_aton(packet.target)).hex(), packet.queue_pair)
        if address not in self.recording.queue_pairs:
            return
        receiver = self.recording.of(address)
        sender = self.recording.of(receiver.peer_address)
        if packet.opcode in WRITES:
            sender.writes = True
        elif packet.opcode == roce.ACKNOWLEDGE:
            self.recording.done(receiver, packet.psn)
        elif packet.opcode == roce.SEND_ONLY and self.sent.get(address) != packet.psn:
            self.sent[address] = packet.psn
            self.recording.post(sender, packet.psn, packet.payload)
            self.recording.deliver(sender, receiver)
            self.recording.take(receiver)
            self.follow(sender, packet.payload)

    def follow(self, sender, message):
        """LLC messages tell which queue pairs make a link, and which link is deleted."""
        kind, flags = message[0] & LLC_KIND, message[3]
        if message[0] == CDC:
            return
        if kind == ADD_LINK and not flags & REJECTED:
            named, link = added_by(message), message[31]
            if not flags & RESPONSE:
                self.offers[link] = named
            elif link in self.offers:
                self.connect(self.offers[link], named)
                self.numbers[link] = self.offers.pop(link)
        elif kind == CONFIRM_LINK:
            self.numbers.setdefault(message[29], sender.address)
        elif kind == DELETE_LINK and not flags & (RESPONSE | ALL_LINKS) and message[4] in self.numbers:
            self.recording.happened("broken", self.recording.of(self.numbers.pop(message[4])))


def captured(files):
    """The recording of some captures of the same hosts, one after the other; each is the content of a file."""
    capture = Capture()
    try:
        for data in files:
            for datagram in pcap.datagrams(data):
                capture.take(datagram)
    except pcap.NoCapture as error:
        raise NoRecording(str(error)) from error
    return capture.recording
