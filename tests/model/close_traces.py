"""Traces of close.pml from recordings of simulations: one of each connection that stays on its link until it ends. The
kinds of lines stand in close.pml.

The applications' actions are those that their proxies see. A proxy also aborts without its application, such as when
the peer's process is gone. That is an abort of the application here, and only put in where the recording has a reason.
"""
import heapq

from altered import changed, find, last, with_behind, without
from recorded import CLIENT, LLC_KIND, RESPONSE, SERVER

BEGIN, WRITE, FINISH, CLOSE, ABORT, POST, TAKE, READ, END, LOST, OVER, DROP = range(12)
DIRECT = 1
AT_ONCE, BEHIND_DATA = 0, 1
FIN, RESET = 1, 2
BLOCKED, PENDING, PRESENT, DONE_WRITING, CLOSED, ABORTED = 1, 2, 4, 8, 16, 32
DECLINE = 4  # of CLC
TEST_LINK = 0x07  # of LLC
READING, WRITING, ASKING = 0, 1, 2  # of an error
ENDS_ITS_CONNECTIONS, IS_GONE = 0, 1  # of a proxy
RESERVE_BYTES = 64  # of an element, for failover
RESET_DELAY = 1000  # milliseconds in which an application that takes nothing loses the rest
LINES_MAX = 4000


class NotModelled(Exception):
    """The model says nothing of such a connection."""


def flags_of(message):
    producer, state = message.data[24], message.state
    return (sum(flag for bit, flag in ((0x80, BLOCKED), (0x40, PENDING), (0x20, PRESENT)) if producer & bit) +
            sum(flag for bit, flag in ((0x80, DONE_WRITING), (0x40, CLOSED), (0x20, ABORTED)) if state & bit))


class Side:
    """What is known of one proxy and its application."""

    def __init__(self):
        self.framed = 0           # bytes that the application wrote before the connection was SMC-R
        self.given = 0            # bytes that it was given, with those of before
        self.written = self.arrived = self.consumed = self.consumed_by_peer = 0
        self.fullest, self.blocked_at = 0, set()
        self.said_flags = self.heard_flags = 0
        self.data_ended = self.got_fin = False
        self.failed = False       # a write to the application met an error
        self.abort = None         # AT_ONCE or BEHIND_DATA
        self.gone = self.lost = self.over = self.dead = False
        self.may_abort = self.may_lose = False
        self.unanswered = {}      # of each queue pair: whether a TEST_LINK waits for an answer


class Maker:
    def __init__(self, connection, direct):
        self.connection, self.direct, self.lines, self.said = connection, direct, [], {}
        self.sides = [Side(), Side()]

    def add(self, kind, side, a=0, b=0, c=0):
        self.lines.append((kind, side, a, b, c))

    def position(self, cursor, side):
        """In the element of this side, as a number that does not wrap."""
        return cursor[0] * self.connection.element_bytes[side] + cursor[1]

    def aborts(self, side, how):
        known = self.sides[side]
        if known.abort is None or (known.abort == BEHIND_DATA and how == AT_ONCE):
            known.abort = how
            known.gone = True
            self.add(ABORT, side, how)

    def close_if_done(self, side):
        known = self.sides[side]
        if known.data_ended and known.got_fin and not known.gone:
            known.gone = True
            self.add(CLOSE, side)

    def loses(self, side):
        known = self.sides[side]
        if (known.may_lose or any(known.unanswered.values())) and not known.lost:
            known.lost = True
            self.add(LOST, side)

    # What the ends of the applications' streams at the proxies do.
    def read(self, side, count):
        if self.sides[side].heard_flags & CLOSED:
            return self.aborts(side, AT_ONCE)  # nobody reads it
        if self.sides[side].heard_flags & ABORTED:
            return None  # for nobody: its peer is gone
        self.sides[side].written += count
        return self.add(WRITE, side, count)

    def fin(self, side):
        known = self.sides[side]
        if not known.data_ended:
            known.data_ended = True
            self.add(FINISH, side)
        if known.failed:
            self.aborts(side, BEHIND_DATA)
        self.close_if_done(side)

    def error(self, side, what):
        known = self.sides[side]
        if what == READING:
            self.aborts(side, AT_ONCE if known.heard_flags & CLOSED else BEHIND_DATA)
        elif known.data_ended:
            self.aborts(side, BEHIND_DATA)
        else:
            known.failed = known.may_abort = True

    def sent(self, side, count):
        known = self.sides[side]
        before, framed = known.consumed, self.sides[1 - side].framed
        known.given += count
        known.consumed = max(0, known.given - framed)
        if known.consumed > before and not known.gone:
            self.add(READ, side, known.consumed - before)

    def shut(self, side):
        known = self.sides[side]
        if not known.gone:
            known.got_fin = True
            self.add(END, side, FIN)
            self.close_if_done(side)

    def close(self, side, reset, idle):
        known = self.sides[side]
        if reset and not known.gone:
            if known.abort is None and not known.heard_flags & ABORTED:
                self.loses(side)
            known.gone = True
            self.add(END, side, RESET, int(known.consumed < known.arrived and idle >= RESET_DELAY))
        elif not reset and not known.over:
            if not known.heard_flags & CLOSED or not known.said_flags & (CLOSED | ABORTED):
                self.loses(side)
            known.over = True
            self.add(OVER, side)

    # Messages.
    def post(self, side, message):
        known, flags = self.sides[side], flags_of(message)
        producer = self.position(message.producer, 1 - side)
        asked = known.abort is not None and (known.abort == AT_ONCE or known.written == producer)
        if flags & ABORTED and not (known.said_flags | known.heard_flags) & ABORTED and known.may_abort and not asked:
            self.aborts(side, AT_ONCE)
        if flags & ABORTED and self.direct:
            self.take_back(side, known.written - producer)
        consumer = self.position(message.consumer, side)
        if consumer > known.consumed:
            self.add(DROP, side, consumer - known.consumed)
            known.consumed = consumer
        self.said[message] = (producer, consumer, flags)
        known.said_flags |= flags
        fill = producer - known.consumed_by_peer
        known.fullest = max(known.fullest, fill)
        if flags & BLOCKED:
            known.blocked_at.add(fill)
        self.add(POST, side, *self.said[message])

    def take_back(self, side, count):
        """What the application said last, and its proxy read for nobody: it is not in the peer's element."""
        self.sides[side].written -= count
        while count > 0:
            index = last(self.lines, (WRITE, side), before=len(self.lines))
            part = min(count, self.lines[index][2])
            count -= part
            self.lines[index] = (WRITE, side, self.lines[index][2] - part, 0, 0)
            if self.lines[index][2] == 0:
                del self.lines[index]

    def take(self, side, message):
        known = self.sides[side]
        if not known.lost:
            known.arrived, known.consumed_by_peer, flags = self.said[message]
            known.heard_flags |= flags
            self.add(TAKE, side, *self.said[message])

    def trouble(self, side):
        """Of the peer or of the proxy itself."""
        self.sides[side].may_abort = True

    def reserve(self, side):
        """Of the element of this side: the peer says that it is blocked where so much is left."""
        known, limit = self.sides[1 - side], self.connection.element_bytes[side] - RESERVE_BYTES
        return RESERVE_BYTES if limit in known.blocked_at and known.fullest <= limit else 0


def legs_of(recording, connection):
    """The proxies' ends of the streams of the two applications."""
    announced = recording.tcp[connection.tcp]
    same = [tcp for tcp in recording.tcp.values() if tcp.port == announced.port]
    servers = [tcp for tcp in same if tcp.source == tcp.target]
    if len(servers) != 1:
        raise NotModelled("it was tried more than once")
    return same[0].ends[1], servers[0].ends[0]


def tests(recording, connection):
    """Requests and answers of TEST_LINK: a group ends without an answer."""
    root = recording.groups.find(connection.addresses[CLIENT])
    for event in recording.events:
        if event.kind in ("post", "take") and event.message.data[0] & LLC_KIND == TEST_LINK and \
                bool(event.message.data[3] & RESPONSE) == (event.kind == "take") and \
                recording.groups.find(event.queue_pair.address) == root:
            yield event.at, "test", recording.side_of(event.queue_pair), event.kind, (event.queue_pair,)


def happenings(recording, connection):
    """(when, what, side, kind, values) in order."""
    announced = recording.tcp[connection.tcp]
    pods = (announced.source, announced.target)
    parts = [[(event.at, "link", None, event.kind, (event,)) for event in connection.events]]
    for side, leg in enumerate(legs_of(recording, connection)):
        parts.append([(at, "application", side, kind, values) for at, kind, values in leg])
    for side, end in enumerate(announced.ends):
        parts.append([(at, "peer", side, kind, values) for at, kind, values in end])
    parts.append([(at, "proxy", pods.index(pod), what, ()) for at, pod, what in recording.proxies if pod in pods])
    parts.append(tests(recording, connection))
    return heapq.merge(*parts, key=lambda part: part[0])


def lines_of(recording, connection):
    """The trace of a connection. NotModelled if there is none."""
    direct = 0 if any(queue_pair.writes for queue_pair in recording.queue_pairs.values()) else DIRECT
    maker, link = Maker(connection, direct), None
    for at, what, side, kind, values in happenings(recording, connection):
        if at <= connection.began:
            if what == "application":
                if kind in ("fin", "shut", "error", "close"):
                    raise NotModelled("an application has ended before")
                if kind == "read":
                    maker.sides[side].framed += values[0]
                elif kind == "sent":
                    maker.sides[side].given += values[0]
            continue
        if what == "test":
            maker.sides[side].unanswered[values[0]] = kind == "post"
        elif what == "link":
            event, = values
            if event.message is None:
                for known in maker.sides:
                    known.may_lose = True
                continue
            ends = frozenset((event.queue_pair.address, event.queue_pair.peer_address))
            link = link or ends
            if ends != link or event.message.is_validation:
                raise NotModelled("it changes its link")
            side = event.message.side if kind == "post" else 1 - event.message.side
            if kind in ("post", "take") and not maker.sides[side].dead:
                getattr(maker, kind)(side, event.message)
        elif maker.sides[side].dead:
            pass
        elif what == "application":
            getattr(maker, kind)(side, *values)
        elif what == "proxy":
            maker.trouble(side)
            maker.sides[side].dead = kind == IS_GONE
        elif kind == "clc" and values[0] == DECLINE:
            raise NotModelled("it goes on in TCP")
        elif kind in ("fin", "error"):
            maker.trouble(side)
    if not any(line[0] == POST for line in maker.lines) or len(maker.lines) > LINES_MAX:
        raise NotModelled("nothing is said, or too much")
    return [(BEGIN, side, connection.element_bytes[side], direct, maker.reserve(side))
            for side in (CLIENT, SERVER)] + maker.lines


def has_reset(lines):
    return any(line[0] == ABORT or (line[0] == END and line[2] == RESET) for line in lines)


def traces(recording):
    """First those that end in a reset: fewer connections do."""
    found = []
    for connection in () if recording.of_kernels else recording.connections:
        try:
            found.append(lines_of(recording, connection))
        except NotModelled:
            pass
    return sorted(found, key=has_reset, reverse=True)


def given(lines, how):
    """Index of the first end that an application was given like this."""
    return find(lines, (END, None, how))


def said(lines, flag, but=0):
    """Index of the first message with this flag and not the other."""
    return find(lines, lambda kind, side, a, b, c: kind == POST and c & flag and not c & but)


def early_fin(lines):
    """The peer has said its end, but a byte is still unread."""
    end = given(lines, FIN)
    read = None if end is None else last(lines, (READ, lines[end][1]), before=end)
    ended = None if read is None else last(lines, (TAKE, lines[end][1]), before=read)
    if ended is None or not lines[ended][4] & (DONE_WRITING | CLOSED):
        return None
    return [*lines[:read], lines[end], *lines[read:end], *lines[end + 1:]]


def unread_byte(lines):
    end = given(lines, FIN)
    read = None if end is None else last(lines, (READ, lines[end][1]), before=end)
    return changed(lines, read, a=lambda count: count - 1) if read is not None and lines[read][2] > 1 else None


def unasked_end(lines):
    done = said(lines, DONE_WRITING, CLOSED | ABORTED)
    return None if done is None else without(lines, last(lines, (FINISH, lines[done][1]), before=done))


def early_end(lines):
    """Said beside bytes before the last one."""
    done = said(lines, DONE_WRITING)
    before = None if done is None else last(lines, (POST, lines[done][1]), before=done)
    return changed(lines, before, c=DONE_WRITING) if before is not None and lines[before][2] < lines[done][2] else None


def late_data(lines):
    done = said(lines, DONE_WRITING, CLOSED | ABORTED)
    return None if done is None else with_behind(lines, done, (WRITE, lines[done][1], 1))


def second_message(lines):
    aborted = said(lines, ABORTED)
    return None if aborted is None else with_behind(lines, aborted, lines[aborted])


def early_reuse(lines):
    over = find(lines, (OVER,))
    taken = None if over is None else find(
        lines, lambda kind, side, a, b, c: kind == TAKE and side == lines[over][1] and c & CLOSED)
    if taken is None or taken > over or has_reset(lines):
        return None
    return [*lines[:taken], lines[over], *lines[taken:over], *lines[over + 1:]]


def dropped_byte(lines):
    """For an application that reads on."""
    read = find(lines, lambda kind, side, a, b, c: kind == READ and a > 1)
    if read is None:
        return None
    rest, = changed(lines[read:read + 1], 0, a=lambda count: count - 1)
    return [*lines[:read], (DROP, lines[read][1], 1, 0, 0), rest, *lines[read + 1:]]


def with_urgent_byte(lines, marks=1):
    """As if the last byte of a side were urgent, and so many of the last ones that the peer reads. The simulated
    applications write no urgent bytes."""
    for side in (CLIENT, SERVER):
        writes = [index for index, line in enumerate(lines) if line[:2] == (WRITE, side)]
        total = sum(lines[index][2] for index in writes)
        reads = [index for index, line in enumerate(lines) if line[:2] == (READ, 1 - side)]
        if not writes or has_reset(lines) or sum(lines[index][2] for index in reads) != total:
            continue
        written, read, count = writes[-1], reads[-1], lines[reads[-1]][2]
        if count <= marks:
            continue
        announced = find(lines, (POST, side, total))
        taken = find(lines, (TAKE, 1 - side, total))
        if announced < written or find(lines, (POST, side), after=written) != announced:
            continue
        lines = changed(lines, written, b=1)
        for index in (announced, taken):
            lines = changed(lines, index, c=lambda flags: flags | PENDING | PRESENT)
        return [*lines[:read], (READ, 1 - side, count - marks, 0, 0), *[(READ, 1 - side, 1, 1, 0)] * marks,
                *lines[read + 1:]]
    return None


def unannounced_urgent_byte(lines):
    urgent = with_urgent_byte(lines)
    return urgent and changed(urgent, said(urgent, PRESENT), c=lambda flags: flags & ~(PENDING | PRESENT))


ALTERATIONS = {
    "a FIN that is given before the last byte": early_fin,
    "a FIN although a byte is missing": unread_byte,
    "a reset without an abort or a loss": lambda lines: None if has_reset(lines) or find(lines, (LOST,)) else changed(
        lines, given(lines, FIN), a=RESET),
    "a FIN in place of a reset": lambda lines: None if given(lines, FIN) else changed(
        lines, given(lines, RESET), a=FIN),
    "closed without done writing": lambda lines: changed(
        lines, said(lines, CLOSED), c=lambda flags: flags & ~DONE_WRITING),
    "done writing beside bytes before the last": early_end,
    "data behind done writing": late_data,
    "a message behind aborted": second_message,
    "an end that the application never asked for": unasked_end,
    "an abort that nobody asked for": lambda lines: without(
        lines, find(lines, (ABORT,))),
    "an element that may be used again before the peer has closed": early_reuse,
    "bytes that are dropped for an application that reads on": dropped_byte,
    "an urgent byte that no message has announced": unannounced_urgent_byte,
    "an urgent mark twice": lambda lines: with_urgent_byte(lines, 2),
}
