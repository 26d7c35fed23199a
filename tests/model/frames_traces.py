"""Traces of frames.pml from recordings of simulations: one of each connection that began in frames, from its first
frame until both sides have ended, or until something happens that the model does not know, such as the end of a proxy.
The kinds of lines stand in frames.pml.

A line stands where an item was written or read in full. What was read behind an item that has to be answered waits for
the answer, as it does in the proxy. The hand-over of a client is taken where it is answered: until then the server
writes frames that it has made before."""
import collections

from altered import changed, find, last, with_behind, without
from recorded import CLIENT, SERVER

SEND, TAKE, PUT, GET, APP_RESET, GROUP_LOST, NOW_DEAD, NOW_OVER = 1, 2, 3, 4, 5, 6, 7, 8
DATA, URGENT, ENDED, HAND_OVER, RETURN, RETURNED, CLOSED = 1, 2, 3, 4, 5, 6, 7
CLC, PROPOSAL, ACCEPT, CONFIRM, DECLINE = 10, 11, 12, 13, 14
PLAIN, FIN = 21, 23
PREFACE = bytes.fromhex("fa1ead01")  # or with 02
WINDOW = 7  # the type of a frame
FRAME_HEADER, CLC_HEADER, CLC_FIRST_BYTE, FIRST_CONTACT = 4, 8, 0xe2, 0x08
FRAMED_MAX = 131072
DONE_WRITING, HAS_CLOSED, ABORTED = 0x80, 0x40, 0x20  # of a CDC message
ANY = 0
UNDER_WAY_MAX = 200  # items, of the model
LINES_MAX = 4000


class NotModelled(Exception):
    """The model says nothing of what follows."""


class Side:
    """What is known of one proxy."""

    def __init__(self):
        # The TCP stream to its peer.
        self.begun = b""      # an item that is written in part
        self.written = 0      # bytes in whole items
        self.under_way = collections.deque()  # items: bytes written with it, type, value, bytes
        self.read = 0         # bytes from its peer
        self.read_fin = False
        self.answers = None   # type of what it has to send before it takes more
        # The connection.
        self.out = 0          # bytes of its application that went on
        self.declined = self.has_ended = self.got_end = False
        self.gone = self.dead = False
        self.app_failed = self.net_failed = False
        # SMC-R.
        self.connections = 0  # that it has begun
        self.connection = None
        self.confirmed = 0    # where its Confirm stands in the trace
        self.ring = collections.deque()  # items to the peer: position behind it, type, value, bytes
        self.begin_smc(None, 0)

    def begin_smc(self, connection, line):
        self.connection, self.confirmed = connection, line
        self.connections += connection is not None
        self.base = self.announced = self.out
        self.said = 0         # flags
        self.put_closed = self.got_closed = False
        self.said_return = self.said_returned = self.heard_return = self.heard_returned = False
        self.has_ended = self.got_end = False
        self.ring.clear()

    def returned(self):
        return self.said_return and self.said_returned and self.heard_return and self.heard_returned


class QueuePairs:
    """When the queue pairs of a recording were first heard of, and when they failed."""

    def __init__(self, recording):
        self.recording, self.seen, self.ended = recording, {}, {}
        for event in recording.events:
            self.seen.setdefault(event.queue_pair.address, event.at)
            if event.kind in ("broken", "fail", "gone"):
                self.ended.setdefault(event.queue_pair.address, event.at)

    def lost(self, connection, at):
        """One side has none any more in the group of this connection."""
        groups = self.recording.groups
        root, left = groups.find(connection.addresses[0]), {CLIENT: 0, SERVER: 0}
        for queue_pair in self.recording.queue_pairs.values():
            address = queue_pair.address
            if self.seen.get(address, at) < at and groups.find(address) == root:
                side = self.recording.side_of(queue_pair)
                if side is not None:
                    left[side] += self.ended.get(address, at) >= at
        return 0 in left.values()


class Maker:
    def __init__(self, recording, number, queue_pairs):
        self.recording, self.tcp, self.queue_pairs, self.lines = recording, recording.tcp[number], queue_pairs, []
        self.sides = (Side(), Side())
        self.connections = [connection for connection in recording.connections if connection.tcp == number]
        self.heard = {}  # (connection, side): position and flags that it has been told
        self.group_lost = False
        self.at = 0

    def add(self, kind, side, a=0, b=0, c=0):
        self.lines.append((kind, side, a, b, c))

    def write(self, side, data):
        known = self.sides[side]
        known.begun += data
        while known.begun:
            length, kind, value, count = self.item(side, known.begun)
            if length == 0:
                return
            known.begun = known.begun[length:]
            known.written += length
            if kind and not known.gone:
                self.send(side, kind, value, count)

    def item(self, side, data):
        """The first one: its length, or 0 if it is not whole; type, value, bytes."""
        known = self.sides[side]
        if side == CLIENT and known.written == 0:
            return len(PREFACE), 0, 0, 0
        if known.declined:
            return len(data), PLAIN, known.out, len(data)
        if data[0] == CLC_FIRST_BYTE:
            length = max(int.from_bytes(data[5:7], "big"), CLC_HEADER)
            if len(data) < length:
                return 0, 0, 0, 0
            kind = CLC + data[4]
            return length, kind, int(kind == CONFIRM and data[7] & FIRST_CONTACT != 0), 0
        length = FRAME_HEADER + int.from_bytes(data[1:FRAME_HEADER], "big")
        if len(data) < max(length, FRAME_HEADER):
            return 0, 0, 0, 0
        if data[0] in (DATA, URGENT):
            return length, data[0], known.out, length - FRAME_HEADER
        if data[0] == WINDOW:  # the model has no windows
            return length, 0, 0, 0
        return length, data[0], int.from_bytes(data[FRAME_HEADER:length], "big"), 0

    def send(self, side, kind, value, count):
        known = self.sides[side]
        if len(known.under_way) == UNDER_WAY_MAX:
            raise NotModelled("too much under way")
        if kind == HAND_OVER and side == SERVER:
            self.take_one(side)
        elif kind == RETURN:
            self.put(side, known.base + value)
        elif kind == DECLINE:
            self.lose_group_before_decline(side)
        self.add(SEND, side, kind, value, count)
        known.out += count
        known.under_way.append((known.written, kind, value, count))
        if kind in (ENDED, FIN):
            known.has_ended = True
        elif kind == DECLINE:
            self.declines(side)
        elif kind == CONFIRM:
            self.begin_smc(side)
        elif kind == RETURN:
            known.said_return = True
        elif kind == RETURNED:
            known.said_returned = True
            self.leave_smc_if_returned(side)
        if known.answers in (ANY, kind):
            known.answers = None
        self.take_all(side)

    def take_all(self, side):
        known, peer = self.sides[side], self.sides[1 - side]
        while not known.gone and known.answers is None and peer.under_way:
            written, kind, _, _ = peer.under_way[0]
            if written > known.read or (kind == FIN and not known.read_fin) or (kind == HAND_OVER and side == SERVER):
                return
            self.take_one(side)

    def take_one(self, side):
        known, peer = self.sides[side], self.sides[1 - side]
        if not peer.under_way:
            raise NotModelled("an answer to nothing")
        _, kind, value, count = peer.under_way.popleft()
        line = len(self.lines)
        self.add(TAKE, side, kind, value, count)
        if kind in (ENDED, FIN):
            known.got_end = True
        elif kind == DECLINE:
            self.declines(side)
        elif kind in (PROPOSAL, ACCEPT):
            known.answers = ANY
        elif kind == CONFIRM:
            self.begin_smc(side)
            known.confirmed = line
            self.get(side)
        elif kind == RETURN:
            known.heard_return = True
        elif kind == RETURNED:
            known.heard_returned = True
            known.answers = None if known.said_returned else RETURNED
            self.leave_smc_if_returned(side)
        elif kind == HAND_OVER and known.declined:
            known.got_end = False

    def declines(self, side):
        known = self.sides[side]
        if not known.declined:
            known.declined, known.has_ended, known.got_end, known.connection = True, False, False, None

    def begin_smc(self, side):
        known = self.sides[side]
        if known.connections >= len(self.connections):
            raise NotModelled("nothing is known of the connection over SMC-R")
        known.begin_smc(self.connections[known.connections], len(self.lines))

    def leave_smc_if_returned(self, side):
        known = self.sides[side]
        if known.returned():
            known.begin_smc(None, 0)
            self.sides[1 - side].ring.clear()

    def post(self, message, connection):
        side = message.side
        known = self.sides[side]
        if known.gone or known.connection is not connection or message.is_validation:
            return
        self.put(side, known.base + self.position(message, connection))
        for flag, kind in ((DONE_WRITING, ENDED), (HAS_CLOSED, CLOSED)):
            if message.state & flag & ~known.said:
                known.said |= flag
                known.put_closed = known.put_closed or kind == CLOSED
                self.add(PUT, side, kind)
                known.ring.append((known.announced - known.base, kind, 0, 0))
        if message.state & ABORTED:
            self.die(side)

    def put(self, side, position):
        """What the peer was told of, or can see in its element."""
        known = self.sides[side]
        count = position - known.announced
        if count > 0:
            self.add(PUT, side, DATA, known.out, count)
            known.ring.append((position - known.base, DATA, known.out, count))
            known.announced, known.out = position, known.out + count
        if len(known.ring) > UNDER_WAY_MAX - 2:
            raise NotModelled("too much in the ring")

    @staticmethod
    def position(message, connection):
        wraps, offset = message.producer
        return wraps * connection.element_bytes[1 - message.side] + offset

    def hear(self, message, connection):
        if message.is_validation:
            return
        side = 1 - message.side
        position, flags = self.heard.get((connection, side), (0, 0))
        self.heard[connection, side] = max(position, self.position(message, connection)), flags | message.state
        self.get(side)

    def get(self, side):
        known, ring = self.sides[side], self.sides[1 - side].ring
        position, flags = self.heard.get((known.connection, side), (0, 0))
        while not known.gone and known.connection is not None and ring:
            end, kind, value, count = ring[0]
            if end > position or not {DATA: True, ENDED: flags & DONE_WRITING, CLOSED: flags & HAS_CLOSED}[kind]:
                return
            ring.popleft()
            known.got_closed = known.got_closed or kind == CLOSED
            self.add(GET, side, kind, value, count)

    def lose_group_before_decline(self, side):
        """Where it was lost before a Confirm came, that may have been any time before."""
        known = self.sides[side]
        if known.connection is None or self.group_lost or not self.queue_pairs.lost(known.connection, self.at):
            return
        self.group_lost = True
        first_contact = side == CLIENT or self.lines[known.confirmed][3] == 1
        at = len(self.lines) if first_contact else known.confirmed
        self.lines.insert(at, (GROUP_LOST, 0, 0, 0, 0))

    def close(self, side, reset):
        known = self.sides[side]
        if known.gone:
            return
        ended = (known.put_closed and known.got_closed) if known.connection else (known.has_ended and known.got_end)
        if ended and not reset:
            known.gone = True
            self.add(NOW_OVER, side)
        else:
            self.die(side)

    def die(self, side):
        known, peer = self.sides[side], self.sides[1 - side]
        if known.app_failed:
            self.add(APP_RESET, side)
        elif not peer.dead and known.connection is not None and not known.said_returned and (
                self.group_lost or self.queue_pairs.lost(known.connection, self.at)):
            if not self.group_lost:
                self.add(GROUP_LOST, CLIENT)
            self.group_lost = True
            self.add(NOW_DEAD, side)
        elif not peer.dead and (known.net_failed or (known.read_fin and not peer.gone) or self.proxy_ended(side)):
            raise NotModelled("the network or a proxy ended it")
        elif self.lines[-1][:4] != (TAKE, SERVER, CONFIRM, 0):  # there it may end without more
            self.add(NOW_DEAD, side)
        known.gone = known.dead = True

    def proxy_ended(self, side):
        pod = self.tcp.source if side == CLIENT else self.tcp.target
        began = min(event[0] for end in self.tcp.ends for event in end)
        return any(began < at <= self.at and of == pod for at, of, _ in self.recording.proxies)

    def app_streams(self, number):
        """What the proxies meet there: (when, side)."""
        def met(stream, end, side):
            return [(at, side) for at, kind, _ in stream.ends[end] if kind == "error"]

        same = {key: tcp for key, tcp in self.recording.tcp.items()
                if (tcp.target, tcp.port) == (self.tcp.target, self.tcp.port)}
        servers = [tcp for key, tcp in same.items() if key > number and tcp.source == tcp.target]
        return met(next(iter(same.values())), 1, CLIENT) + (met(servers[0], 0, SERVER) if servers else [])

    def make(self, number):
        """Until both sides have gone."""
        happened = [(at, 0, side, None) for at, side in self.app_streams(number)]
        happened += [(event[0], 1, side, event) for side in (CLIENT, SERVER) for event in self.tcp.ends[side]]
        happened += [(event.at, 2, connection, event) for connection in self.connections for event in connection.events]
        try:
            for self.at, what, where, event in sorted(happened, key=lambda one: one[0]):
                if what == 0:
                    self.sides[where].app_failed = True
                elif what == 1:
                    self.stream(where, *event[1:])
                elif event.kind == "post":
                    self.post(event.message, where)
                elif event.kind == "take":
                    self.hear(event.message, where)
        except NotModelled:
            pass
        return self.lines

    def stream(self, side, kind, values):
        known = self.sides[side]
        if kind == "framed":
            self.write(side, values[0])
        elif kind == "read":
            known.read += values[0]
            self.take_all(side)
        elif kind == "fin":
            known.read_fin = True
            self.take_all(side)
        elif kind == "error":
            known.net_failed = True
        elif kind == "shut" and known.declined and not known.gone:
            self.send(side, FIN, 0, 0)
        elif kind == "close":
            self.close(side, values[0])


def began_in_frames(tcp):
    return any(kind == "framed" for _, kind, _ in tcp.ends[CLIENT])


def traces(recording):
    """Those with the most kinds of lines first."""
    numbers = [number for number, tcp in recording.tcp.items() if began_in_frames(tcp)]
    queue_pairs = QueuePairs(recording) if numbers else None
    made = [Maker(recording, number, queue_pairs).make(number) for number in numbers]
    yield from sorted((lines for lines in made if 0 < len(lines) <= LINES_MAX),
                      key=lambda lines: -len({line[:3] for line in lines}))


def sent_before(lines, at, side):
    """Bytes of its application that this side has sent before that line."""
    return sum(line[4] for line in lines[:at] if line[1] == side and line[0] in (SEND, PUT))


def behind(lines, at, kind, side, a, value=None):
    """With one more line behind that one, for one byte or, without bytes, for the position of the stream."""
    if at is None:
        return None
    position = sent_before(lines, at + 1, side) if value is None else value
    return with_behind(lines, at, (kind, side, a, position, int(a in (DATA, PLAIN))))


def with_end_before_last_byte(lines):
    """Of what the server says over SMC-R."""
    swapped = list(lines)
    for kind, side in ((PUT, SERVER), (GET, CLIENT)):
        end = find(lines, (kind, side, ENDED))
        byte = last(lines, (kind, side, DATA), before=end)
        if byte is None:
            return None
        swapped[end], swapped[byte] = swapped[byte], swapped[end]
    return swapped


def with_too_much_in_frames(lines):
    """In the client's first frame, which is taken at once."""
    if find(lines, (SEND, CLIENT, DATA, 0)) != 0:
        return None
    return [(kind, side, DATA, 0, FRAMED_MAX + 1) for kind, side in ((SEND, CLIENT), (TAKE, SERVER))] + lines[1:]


def without_answer_to_return(lines):
    """Of the side that did not begin it."""
    begun = find(lines, (SEND, CLIENT, RETURN), (SEND, SERVER, RETURN))
    if begun is None:
        return None
    peer = 1 - lines[begun][1]
    left = [line for line in lines if line[:3] not in ((SEND, peer, RETURN), (SEND, peer, RETURNED),
                                                       (TAKE, 1 - peer, RETURN), (TAKE, 1 - peer, RETURNED))]
    return None if left == lines else left


def one_more(value):
    return value + 1


ALTERATIONS = {
    "a byte in frames behind the client's hand-over":
        lambda lines: behind(lines, find(lines, (SEND, CLIENT, HAND_OVER)), SEND, CLIENT, DATA),
    "a hand-over behind the client's end":
        lambda lines: behind(lines, find(lines, (SEND, CLIENT, ENDED)), SEND, CLIENT, HAND_OVER)
        if find(lines, (SEND, CLIENT, HAND_OVER)) is None else None,
    "a hand-over that names a wrong position":
        lambda lines: changed(lines, find(lines, (SEND, CLIENT, HAND_OVER)), b=one_more),
    "a hand-over that is read as a later one":
        lambda lines: changed(lines, find(lines, (TAKE, SERVER, HAND_OVER)), b=one_more),
    "plain bytes that are read as a frame":
        lambda lines: changed(lines, find(lines, (TAKE, SERVER, PLAIN)), a=DATA),
    "plain bytes before anybody has declined":
        lambda lines: behind(lines, find(lines, (SEND, CLIENT, PROPOSAL)), SEND, CLIENT, PLAIN),
    "plain bytes before the peer's hand-over has come": lambda lines: None
        if find(lines, (SEND, CLIENT, PROPOSAL)) is not None
        else behind(lines, find(lines, (SEND, CLIENT, DECLINE)), SEND, CLIENT, PLAIN),
    "an end that is delivered before the last byte": with_end_before_last_byte,
    "a return that nobody answered": without_answer_to_return,
    "bytes over SMC-R behind a return":
        lambda lines: behind(lines, find(lines, (SEND, CLIENT, RETURN)), PUT, CLIENT, DATA),
    "a return that names a wrong position":
        lambda lines: changed(lines, find(lines, (SEND, SERVER, RETURN)), b=one_more),
    "more bytes in frames than allowed": with_too_much_in_frames,
    "a byte that is left out": lambda lines: changed(lines, find(lines, (PUT, CLIENT, DATA)), b=one_more),
    "a Confirm without an Accept": lambda lines: without(lines, find(lines, (TAKE, CLIENT, ACCEPT)))
        if find(lines, (SEND, CLIENT, CONFIRM)) is not None else None,
    "bytes over SMC-R before the Confirm":
        lambda lines: behind(lines, find(lines, (TAKE, CLIENT, ACCEPT)), PUT, CLIENT, DATA),
    "a reset without a cause": lambda lines: with_behind(lines, find(lines, (TAKE, SERVER, DATA)), (NOW_DEAD, SERVER)),
    "an end in order while the peer still writes":
        lambda lines: with_behind(lines, find(lines, (TAKE, SERVER, ENDED)), (NOW_OVER, SERVER)),
}
