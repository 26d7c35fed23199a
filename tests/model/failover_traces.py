"""Traces of failover.pml from recordings: one for each direction of a connection whose bytes go by RDMA WRITE. Of
simulations only those that have changed their link. The kinds of lines stand in failover.pml."""
from altered import changed, find, with_behind, without
from recorded import CLIENT, SERVER

RING, POST, POST_VALIDATION, TAKE, TAKE_VALIDATION, DONE, DELIVER, FAIL = 0, 1, 2, 3, 4, 5, 6, 7
WRITER, READER = 0, 1
LINKS_MAX = 4  # of the model, where the last one does not fail
LINES_MAX = 4000


class Positions:
    """The cursors and sequence numbers of one side, as numbers that do not wrap."""

    def __init__(self, element_bytes):
        self.element_bytes, self.sequence = element_bytes, 0

    def of(self, cursor):
        wraps, offset = cursor
        return wraps * self.element_bytes + offset

    def sequence_of(self, message):
        """Near the latest one: 16 bits are on the wire."""
        near = self.sequence + (message.sequence - self.sequence + 0x8000) % 0x10000 - 0x8000
        if not message.is_validation:
            self.sequence = max(self.sequence, near)
        return max(near, 0)


class Links:
    """The links of a connection in the order in which it came to use them."""

    def __init__(self):
        self.number, self.failed = {}, set()

    def key(self, queue_pair):
        return frozenset((queue_pair.address, queue_pair.peer_address))

    def of(self, queue_pair):
        return self.number.setdefault(self.key(queue_pair), len(self.number))


def lines_of(connection, writer):
    """The trace of the bytes that this side writes; or None if the model says nothing of such a connection."""
    links, lines, latest = Links(), [(RING, 0, connection.element_bytes[1 - writer], 0, 0)], {}
    positions = {side: Positions(connection.element_bytes[1 - writer]) for side in (CLIENT, SERVER)}
    said = {}  # what a message says: cursor, sequence number
    for event in connection.events:
        if event.message is None:
            if links.key(event.queue_pair) in links.number and links.of(event.queue_pair) not in links.failed:
                links.failed.add(links.of(event.queue_pair))
                lines.append((FAIL, 0, 0, 0, links.of(event.queue_pair)))
            continue
        message = event.message
        if message.is_validation and not links.number:
            links.number[None] = 0  # it had a link before that failed before any message
            links.failed.add(0)
            lines.append((FAIL, 0, 0, 0, 0))
        link = links.of(event.queue_pair)
        side = WRITER if message.side == writer else READER
        if event.kind == "post":
            if latest.get(side, 0) > link:
                return None  # it came back to an earlier link
            latest[side] = link
            cursor = message.producer if side == WRITER else message.consumer
            said[message] = (0 if message.is_validation else positions[message.side].of(cursor),
                             positions[message.side].sequence_of(message))
            # Linux leaves the cursors of a validation at zero.
            kind = POST_VALIDATION if message.is_validation else POST
            lines.append((kind, side, *said[message], link))
        elif event.kind == "deliver":
            if link not in links.failed:
                lines.append((DELIVER, side, 0, 0, link))
        elif event.kind == "take":
            lines.append((TAKE_VALIDATION if message.is_validation else TAKE, 1 - side, *said[message], link))
        elif event.kind == "done" and not message.is_validation and latest[side] == link:
            lines.append((DONE, side, 0, said[message][1], link))
    return lines if len(links.number) < LINKS_MAX and len(lines) <= LINES_MAX else None


def has_moved(lines):
    return any(line[0] in (POST, POST_VALIDATION) and line[4] > 0 for line in lines)


def traces(recording):
    for connection in recording.connections:
        if connection.writes:
            for writer in (CLIENT, SERVER):
                lines = lines_of(connection, writer)
                if lines is not None and (recording.of_kernels or has_moved(lines)):
                    yield lines


def behind_failure(lines, *wanted):
    return find(lines, *wanted, after=find(lines, (FAIL, 0)))


ALTERATIONS = {
    "a CDC message that was lost when its link failed": lambda lines: without(lines, behind_failure(lines, (POST, WRITER))),
    "a CDC message that nobody has sent": lambda lines: without(lines, find(lines, (POST, READER))),
    "a message that is taken before it arrives": lambda lines: without(lines, find(lines, (DELIVER, WRITER))),
    "a sequence number twice": lambda lines: changed(lines, find(lines, (POST, WRITER), after=5), b=lambda value: value - 1),
    "a producer cursor beyond the window":
        lambda lines: changed(lines, find(lines, (POST, WRITER)), a=lambda value: value + lines[0][2] + 1),
    "a consumer cursor beyond what was produced":
        lambda lines: changed(lines, find(lines, (POST, READER)), a=lambda value: value + lines[0][2] + 1),
    "a consumer cursor that goes back": lambda lines: changed(
        lines, find(lines, lambda kind, side, a, b, c: (kind, side) == (POST, READER) and a > 0), a=0),
    "a validation that names a message which was not completed": lambda lines: changed(
        lines, behind_failure(lines, (POST_VALIDATION, WRITER), (POST_VALIDATION, READER)), b=lambda value: value + 100),
    "a message on a link that has failed for both": lambda lines: changed(
        lines, behind_failure(lines, (DELIVER, WRITER), (DELIVER, READER)), c=0),
    "a link that fails twice": lambda lines: with_behind(
        lines, find(lines, (FAIL, 0)), *lines[find(lines, (FAIL, 0)) or 0:][:1]),
    "a completion of a message that was not sent": lambda lines: changed(
        lines, find(lines, (DONE, WRITER)), b=lambda value: value + 1000),
}
