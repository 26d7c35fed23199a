"""What a hostile peer does in the state that its link group has reached: link_group.py. Every deed takes what an honest
peer would send now, and sends that, something else, or nothing."""
import link_group
from drawing import mutated, number
from link_group import ALL, ORDERLY, REJECTED, RESPONSE

FLOOD_MESSAGES = 300
UNKNOWN_KEY = 0x77777777
# Where a message of a kind names a link.
NUMBER_AT = {link_group.CONFIRM_LINK: 29, link_group.ADD_LINK: 31, link_group.ADD_LINK_CONT: 4,
             link_group.DELETE_LINK: 4}


def due(group):
    """What an honest peer would send; where it would send nothing, answers that nobody asked for."""
    link = group.adding or group.links[-1]
    return group.take_due() or [(group.carrier(), group.confirm_link(link, RESPONSE | link_group.NO_EYECATCHER)),
                                (group.carrier(), group.add_link(link, RESPONSE))]


def silence(_group, _rng):
    """The flow is abandoned, and the group stays."""


def twice(group, rng):
    for link, data in due(group) * rng.choice((2, 2, 3, 20)):
        group.send(data, link)


def contradict(group, rng):
    """The answer and its opposite, in either order."""
    for link, data in due(group):
        other = bytearray(data)
        other[3] ^= rng.choice((REJECTED, RESPONSE, 0x20, 0x10, link_group.NO_EYECATCHER))
        for one in rng.sample((data, other), 2):
            group.send(one, link)


def wrong_number(group, rng):
    """Names a link that is another, the next, or none."""
    for link, data in due(group):
        at = NUMBER_AT.get(data[0] & 0x1F)
        if at is not None:
            data[at] = rng.choice((0, 1, 2, 3, 4, 5, 255, (data[at] + 1) & 0xFF))
        group.send(data, link)


def wrong_key(group, rng):
    """Keys that were never announced, keys in use, and more keys than there can be."""
    for link, data in due(group):
        if data[0] & 0x1F in (link_group.ADD_LINK, link_group.ADD_LINK_CONT):
            at = rng.choice((8, 72)) if len(data) > 72 else 8
            data[at:at + 8] = rng.randbytes(8)
        group.send(data, link)
    for _ in range(rng.randint(1, 6)):
        key = rng.choice((group.key, UNKNOWN_KEY, 0, number(rng, 32)))
        group.send(rng.choice((group.confirm_rkey(key), group.confirm_rkey(key, (2, 3)), group.confirm_rkey(key, (99, 1)),
                               group.delete_rkey([key]), group.delete_rkey([group.key] * 8), group.delete_rkey([]))))
    if group.version == 2 and rng.random() < 0.5:
        group.send(group.add_link(group.links[-1], RESPONSE, [group.key_row(number(rng, 32))] * rng.choice((0, 2, 255))))


def wrong_link(group, rng):
    """On another link than the request came on; also on one that was never confirmed."""
    links = group.all_links()
    for _, data in due(group):
        for _ in range(rng.randint(1, 3)):
            group.send(data, rng.choice(links))


def mutation(group, rng):
    for link, data in due(group):
        group.send(mutated(rng, data).ljust(rng.choice((0, 44)), b"\0"), link)


def own_flows(group):
    link = group.adding or group.links[-1]
    return [group.request_link(), group.add_link(link), group.confirm_link(link), group.confirm_rkey(group.key),
            group.confirm_rkey(group.key, (1, 2)), group.delete_rkey([UNKNOWN_KEY]), group.delete_link(link.number),
            group.header(link_group.TEST_LINK), group.add_link_cont(link)]


def collide(group, rng):
    """Begins flows of its own at the same moment, with the honest answer somewhere between them."""
    honest = due(group)
    begun = [(group.carrier(), data) for data in rng.sample(own_flows(group), rng.randint(2, 6))]
    for link, data in rng.sample(honest + begun, len(honest) + len(begun)):
        group.send(data, link)


def both_begin(group, rng):
    """Begins the victim's own flow towards it, and never answers."""
    group.take_due()
    for data in rng.sample(own_flows(group), rng.randint(1, 3)):
        group.send(data)


def abandon_rkey(group, rng):
    """A CONFIRM_RKEY that promises more links than follow."""
    for _ in range(rng.choice((1, 1, 5))):
        group.send(group.confirm_rkey(group.key, (2, 3), count=rng.choice((3, 4, 7, 8, 255))))
    if rng.random() < 0.5:
        group.send(group.confirm_rkey_cont(rng.choice((0, 1, 2, 5, 255)), (3, 4)))


def continuation(group, rng):
    """Continues what was not begun, or without an end."""
    link = group.adding or group.links[-1]
    for _ in range(rng.choice((1, 3, FLOOD_MESSAGES))):
        group.send(rng.choice((group.add_link_cont(link, rng.choice((0, RESPONSE)), 255),
                               group.confirm_rkey_cont(3, (1, 2, 3)))) if rng.random() < 0.2
                   else group.add_link_cont(link, rng.choice((0, RESPONSE)), 255))


def delete(group, rng):
    """Deletes links that exist, that are being added, that do not exist; one, all, and twice."""
    for link, data in due(group) if rng.random() < 0.5 else []:
        group.send(data, link)
    for _ in range(rng.choice((1, 1, 2, 4))):
        which = rng.choice((0, 1, 2, 3, 4, 255, (group.adding or group.links[-1]).number))
        flags = rng.choice((ORDERLY, ORDERLY, 0, ALL, ALL | ORDERLY, RESPONSE, RESPONSE | ALL))
        group.send(group.delete_link(which, flags, rng.choice((0, 0x00010000, 0x00050000, 0x00100000, number(rng, 32)))),
                   rng.choice(group.links))


def vanish(group, rng):
    """Queue pairs end without a word: one, some or all; also between a request and its answer."""
    links = group.all_links()
    honest = due(group)
    if rng.random() < 0.5:
        for link, data in honest:
            group.send(data, link)
    group.vanish(rng.sample(links, rng.randint(1, len(links))))
    if rng.random() < 0.5:
        for link, data in honest:
            group.send(data, link)


def data_too_early(group, rng):
    """CDC messages for the connection: before the link is confirmed, with positions outside of the ring, in any state."""
    for sequence in range(1, rng.randint(2, 20)):
        group.send(group.cdc(rng.choice((sequence, sequence, number(rng, 16))),
                             producer=rng.choice(((0, 100), (0, 16383), (1, 0), (number(rng, 16), number(rng, 32)))),
                             consumer=rng.choice(((0, 0), (0, 0), (number(rng, 16), number(rng, 32)))),
                             flags=rng.choice((0, 0, 0x80, 0x08, 0x60, number(rng, 8))),
                             state=rng.choice((0, 0, 0, 0x80, 0x40, 0x20)),
                             token=rng.choice((None, None, number(rng, 32)))), rng.choice(group.links))


def other_version(group, _rng):
    """The message is right, and of the other version."""
    for link, data in due(group):
        data[0] ^= link_group.VERSION_2
        group.send(data, link)


def flood(group, rng):
    """One request without end; the answers stay unread."""
    data = rng.choice(own_flows(group))
    for _ in range(FLOOD_MESSAGES):
        group.send(data)


ALL_DEEDS = (silence, twice, contradict, wrong_number, wrong_key, wrong_link, mutation, collide, both_begin, abandon_rkey,
             continuation, delete, vanish, data_too_early, other_version, flood)
