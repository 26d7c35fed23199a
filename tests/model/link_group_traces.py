"""Traces of link_group.pml from recordings: one for each link group of version 2 without continuations. The kinds of
lines and the numbers of messages stand in link_group.pml."""
from altered import changed, find, with_behind, without
from recorded import ADD_LINK, ALL_LINKS, CDC, CLIENT, CONFIRM_LINK, DELETE_LINK, LLC_KIND, REJECTED, RESPONSE, SERVER
from recorded import added_by

AGREED, POSTED, TAKEN, CLOSED = 0, 1, 2, 3
(CONFIRM, CONFIRM_ANSWER, ADD, ADD_ANSWER, ADD_REJECTED, DELETE, DELETE_DONE, DELETE_UNKNOWN, DELETE_ALL_ORDERLY,
 DELETE_ALL, REQ_ADD, REQ_ADD_REJECTED, RKEY, RKEY_ANSWER, RKEY_AGAIN) = range(1, 16)
DELETING = (DELETE, DELETE_DONE, DELETE_UNKNOWN, ADD_REJECTED)  # messages at which the owner may give a link up
REQ_ADD_LINK, CONFIRM_RKEY, TEST_LINK, DELETE_RKEY = 0x05, 0x06, 0x07, 0x09
ORDERLY, RETRY = 0x20, 0x10
PATH_LOST, UNKNOWN_LINK = 0x00010000, 0x00100000
LINES_MAX = 2000


class LeftOut(Exception):
    """The model says nothing of such a group."""


def reason_of(data):
    return int.from_bytes(data[5:9], "big")


def meaning_of(data):
    """The number of an LLC message and the link that it names; or None of a TEST_LINK."""
    kind, flags = data[0] & LLC_KIND, data[3]
    answer = bool(flags & RESPONSE)
    if data[0] >> 4 != 2:
        raise LeftOut("version 1")
    if kind == TEST_LINK:
        return None
    if kind == CONFIRM_LINK:
        return CONFIRM_ANSWER if answer else CONFIRM, data[29]
    if kind == ADD_LINK:
        return (ADD if not answer else ADD_REJECTED if flags & REJECTED else ADD_ANSWER), data[31]
    if kind == DELETE_LINK and flags & ALL_LINKS and not answer:
        return DELETE_ALL_ORDERLY if flags & ORDERLY else DELETE_ALL, 0
    if kind == DELETE_LINK:
        return (DELETE if not answer else DELETE_UNKNOWN if reason_of(data) == UNKNOWN_LINK else DELETE_DONE), data[4]
    if kind == REQ_ADD_LINK:
        return REQ_ADD_REJECTED if answer else REQ_ADD, 0
    if kind in (CONFIRM_RKEY, DELETE_RKEY):
        return (RKEY if not answer else RKEY_AGAIN if kind == CONFIRM_RKEY and flags & RETRY else RKEY_ANSWER), 0
    raise LeftOut("a continuation")


def is_llc(message):
    return message is not None and message.data[0] != CDC


class Group:
    """What happened in one link group, as (position in the recording, kind, side, queue pair, LLC message or None)."""

    def __init__(self, of_kernels):
        self.of_kernels = of_kernels
        self.happened = []
        self.batches = {}  # of a failure: what its owner had polled, see polled_before()
        self.numbers = {}  # of the links, by their two queue pairs
        self.links_max = None

    def key(self, queue_pair):
        return frozenset((queue_pair.address, queue_pair.peer_address))

    def number(self, queue_pair):
        return self.numbers.get(self.key(queue_pair))

    def learn_numbers(self):
        named = {}
        for _, kind, _, queue_pair, message in self.happened:
            if kind == "post" and message.data[0] & LLC_KIND == CONFIRM_LINK:
                self.numbers[self.key(queue_pair)] = message.data[29]
                self.links_max = self.links_max or message.data[34]
            elif kind == "post" and message.data[0] & LLC_KIND == ADD_LINK:
                named[added_by(message.data)] = message.data[31]
        for _, _, _, queue_pair, _ in self.happened:
            number = named.get(queue_pair.address, named.get(queue_pair.peer_address))
            if number is not None:
                self.numbers.setdefault(self.key(queue_pair), number)

    def moment(self, at, side, queue_pair):
        """When a side gave up a queue pair. An owner polls some completions and handles them one after the other: it
        gives the queue pair up at the one that has failed, or at the message that deletes the link."""
        polled, failed = self.batches[at]
        if failed is not None:
            return failed, 0
        link = self.number(queue_pair)
        for position, kind, of, _, message in self.happened:
            if position in polled and kind == "take" and of == side:
                meaning = meaning_of(message.data)
                if meaning is not None and meaning[0] in DELETING and meaning[1] == link:
                    return position, 1
        return at, 0

    def lines(self):
        self.learn_numbers()
        moments = {}
        for at, kind, side, queue_pair, _ in self.happened:
            moments[at] = self.moment(at, side, queue_pair) if kind == "fail" else (at, 0)
        lines, closed, told = [(AGREED, 0, self.links_max or 1, 0, 0)], set(), set()
        for _, kind, side, queue_pair, message in sorted(self.happened, key=lambda what: moments[what[0]]):
            link = self.number(queue_pair)
            if kind == "fail":
                if link is not None and (side, link) not in closed:
                    closed.add((side, link))
                    lines.append((CLOSED, side, link, 0, 0))
                continue
            meaning = meaning_of(message.data)
            if meaning is None or (kind == "take" and (side, link) in closed):
                continue  # nobody looks at what came over a link that was given up
            if link is None:
                raise LeftOut("a link without a number")
            what, named = meaning
            if self.of_kernels and what == DELETE and kind == "take":
                told.add((side, named))
            if self.of_kernels and what == DELETE and kind == "post" and reason_of(message.data) == PATH_LOST:
                # A capture does not show what a kernel learns of its device.
                if (side, named) not in told | closed:
                    closed.add((side, named))
                    lines.append((CLOSED, side, named, 0, 0))
            lines.append((POSTED if kind == "post" else TAKEN, side, link, what, named))
        return lines


def polled_before(events, at):
    """Of a queue pair that is given up at a position: the positions of the completions that its owner may be handling,
    and the first of them that tells of the failure, or None."""
    before = at - 1
    while before >= 0 and events[before].kind in ("fail", "broken", "gone"):
        before -= 1
    end, failed = before + 1, None
    while before >= 0 and events[before].kind in ("take", "done", "failed"):
        if events[before].kind == "failed" and events[before].queue_pair is events[at].queue_pair:
            failed = before
        before -= 1
    return range(before + 1, end), failed


def groups_of(recording):
    groups = {}
    for at, event in enumerate(recording.events):
        if event.kind != "fail" and (event.kind not in ("post", "take") or not is_llc(event.message)):
            continue
        root = recording.groups.find(event.queue_pair.address)
        group = groups.setdefault(root, Group(recording.of_kernels))
        group.happened.append((at, event.kind, recording.side_of(event.queue_pair), event.queue_pair, event.message))
        if event.kind == "fail":
            group.batches[at] = polled_before(recording.events, at)
    return groups.values()


def traces(recording):
    for group in groups_of(recording):
        try:
            lines = group.lines()
        except LeftOut:
            continue
        if any(line[0] == POSTED for line in lines) and len(lines) <= LINES_MAX:
            yield lines


def pattern(kind, side=None, message=None, link=None):
    return kind, side, link, message


def taken(lines, posted):
    """Index of the line where the other side takes what was posted, if no equal message is before it; or None."""
    if posted is None:
        return None
    _, side, *message = lines[posted]
    return find(lines, (TAKEN, 1 - side, *message), after=posted)


def sent_otherwise(lines, posted, **values):
    """A message with other values, where it is posted and where it is taken."""
    at = taken(lines, posted)
    return None if at is None else changed(changed(lines, posted, **values), at, **values)


def never_sent(lines, posted):
    at = taken(lines, posted)
    return None if at is None else without(without(lines, at), posted)


def on_closed_link(lines):
    closed = find(lines, pattern(CLOSED))
    if closed is None:
        return None
    return changed(lines, find(lines, pattern(POSTED, side=lines[closed][1]), after=closed), a=lines[closed][2])


def closed_twice(lines):
    closed = find(lines, pattern(CLOSED))
    return None if closed is None else with_behind(lines, closed, lines[closed])


def deleted_twice(lines):
    """The server deletes a link again when the client has answered."""
    done = find(lines, pattern(TAKEN, SERVER, DELETE_DONE))
    if done is None or find(lines, pattern(CLOSED, SERVER, link=lines[done][4]), after=done) != done + 1:
        return None
    _, _, link, _, named = lines[done]
    return with_behind(lines, done + 1, (POSTED, SERVER, link, DELETE, named), (TAKEN, CLIENT, link, DELETE, named),
                       (POSTED, CLIENT, link, DELETE_UNKNOWN, named), (TAKEN, SERVER, link, DELETE_UNKNOWN, named))


def loss_untold(lines):
    """The other side has not yet closed its end either."""
    closed = find(lines, pattern(CLOSED))
    told = None if closed is None else find(lines, pattern(POSTED, lines[closed][1], DELETE), after=closed)
    return never_sent(lines, told) if told is not None and lines[told][4] == lines[closed][2] else None


def overtaken(lines):
    """Two messages that follow each other on a link, taken the other way round."""
    for first, one in enumerate(lines):
        second = find(lines, pattern(TAKEN, one[1], link=one[2]), after=first + 1) if one[0] == TAKEN else None
        if second is None or lines[second] == one:
            continue
        if (POSTED, 1 - one[1], *lines[second][2:]) in lines[:first]:
            return changed(changed(lines, first, b=lines[second][3], c=lines[second][4]), second, b=one[3], c=one[4])
    return None


def too_many_links(lines):
    """Three links are there at a time where one is agreed on, beside which another one may be for a while."""
    third = find(lines, pattern(TAKEN, SERVER, CONFIRM_ANSWER, link=3))
    closed = find(lines, pattern(CLOSED))
    return None if third is None or (closed is not None and closed < third) else changed(lines, 0, a=1)


def taken_twice(lines):
    at = find(lines, pattern(TAKEN))
    return None if at is None else with_behind(lines, at, lines[at])


def after_the_end(lines):
    at = find(lines, pattern(POSTED, message=DELETE_ALL))
    return None if at is None else with_behind(lines, at, (POSTED, *lines[at][1:3], RKEY, 0))


ALTERATIONS = {
    "a link that is closed twice": closed_twice,
    "a link that is deleted twice": deleted_twice,
    "a lost link of which the other side is not told": loss_untold,
    "a message on a link that its side has closed": on_closed_link,
    "a number that two links have": lambda lines: sent_otherwise(lines, find(lines, pattern(POSTED, SERVER, ADD)), c=1),
    "a link more than was agreed on": too_many_links,
    "an ADD_LINK of the client": lambda lines: changed(lines, find(lines, pattern(POSTED, SERVER, ADD)), side=CLIENT),
    "an ADD_LINK that is refused and yet confirmed":
        lambda lines: sent_otherwise(lines, find(lines, pattern(POSTED, CLIENT, ADD_ANSWER)), b=ADD_REJECTED),
    "an answer to ADD_LINK that names another link":
        lambda lines: sent_otherwise(lines, find(lines, pattern(POSTED, CLIENT, ADD_ANSWER)), c=99),
    "a CONFIRM_LINK before the answer to ADD_LINK":
        lambda lines: without(lines, find(lines, pattern(TAKEN, SERVER, ADD_ANSWER))),
    "an answer to CONFIRM_LINK without a request":
        lambda lines: without(lines, find(lines, pattern(TAKEN, CLIENT, CONFIRM), after=find(lines, pattern(TAKEN, CLIENT, ADD)))),
    "an answer to DELETE_LINK that was never posted":
        lambda lines: without(lines, find(lines, pattern(POSTED, CLIENT, DELETE_DONE))),
    "an answer to CONFIRM_RKEY without a request": lambda lines: never_sent(lines, find(lines, pattern(POSTED, message=RKEY))),
    "a REQ_ADD_LINK of the server": lambda lines: changed(lines, find(lines, pattern(POSTED, CLIENT, REQ_ADD)), side=SERVER),
    "a message that is taken twice": taken_twice,
    "a message that overtakes another one of its link": overtaken,
    "a message of a side that has ended the group": after_the_end,
    "an answer to the end of the group that nobody has begun":
        lambda lines: never_sent(lines, find(lines, pattern(POSTED, message=DELETE_ALL_ORDERLY))),
}
