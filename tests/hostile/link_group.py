"""The link group of a hostile peer with a victim, in either role and either version, after docs/wire.md, "LLC". It behaves
until it has reached the state that an attack is meant for. Then the attack (deeds.py) misuses that state."""
import contextlib
import itertools
import os
import struct
import time

import clc
from shared_channel import QUEUE_PAIR_GONE, QUEUE_PAIR_READY, ANNOUNCE

CONFIRM_LINK, ADD_LINK, ADD_LINK_CONT, DELETE_LINK, REQ_ADD_LINK = range(1, 6)
CONFIRM_RKEY, TEST_LINK, CONFIRM_RKEY_CONT, DELETE_RKEY = range(6, 10)
NAMES = {1: "CONFIRM_LINK", 2: "ADD_LINK", 3: "ADD_LINK_CONT", 4: "DELETE_LINK", 5: "REQ_ADD_LINK", 6: "CONFIRM_RKEY",
         7: "TEST_LINK", 8: "CONFIRM_RKEY_CONT", 9: "DELETE_RKEY", 0x1E: "CDC"}
RESPONSE, REJECTED, ALL, ORDERLY = 0x80, 0x40, 0x40, 0x20
NO_EYECATCHER = 3
LLC_BYTES = 44
CLC_MAC_AT = 32
MESSAGE_BYTES_MIN = 26
VERSION_2 = 0x20
CDC = 0xFE
LINKS_MAX = 3
BUFFER_BYTES = 1 << 20
BUFFER_ADDRESS = 0x100000
POLL_SECONDS = 0.0005

# In this order a group goes through them. In the first ones the victim waits for this side.
STATES_2 = ("accepted", "confirm_link", "links_1", "add_link", "confirm_added", "links_2", "links_3")
# Version 1 has two links.
STATES_1 = ("accepted", "confirm_link", "links_1", "add_link", "keys", "confirm_added", "links_2")
STATES = {1: STATES_1, 2: STATES_2}
# A server has connected its queue pair there, and has not asked to confirm the link.
WAITING_FOR_SERVER = ("confirm_link", "confirm_added")
_numbers = itertools.count(2)
_keys = itertools.count(0x5001)


class Link:
    def __init__(self, number, port, victim_queue_pair=0, victim_port=1):
        self.number, self.port = number, port
        self.own_queue_pair = next(_numbers)
        self.victim_queue_pair, self.victim_port = victim_queue_pair, victim_port
        self.active = False


class Message:
    """One message of the victim on a link."""

    def __init__(self, link, data):
        self.link, self.data = link, data

    @property
    def kind(self):
        return self.data[0] & 0x1F

    @property
    def is_cdc(self):
        return self.data[0] == CDC

    @property
    def is_response(self):
        return bool(self.data[3] & RESPONSE)

    @property
    def name(self):
        if self.is_cdc:
            return "CDC"
        return NAMES.get(self.kind, "unknown") + ("_answer" if self.is_response else "")


class LinkGroup:
    """`gid` and `channel` are this side's. It is driven by step(), which waits for one message and answers it."""

    def __init__(self, device, channel, gid, role, version):
        self.device, self.channel, self.gid = device, channel, gid
        self.role, self.version = role, version
        self.key = next(_keys)
        self.token = self.key
        self.links = [Link(1, 1)]
        self.adding = self.socket = None
        self.state = None
        self.pending = None  # what the victim said, which the reached state leaves unanswered
        self.due = []        # (link, message): what an honest peer would send now
        self.heard = []      # names of all messages of the victim
        self.victim_token = 0
        self.buffer, self.descriptor = 0, -1

    # Set-up

    def ready_memory(self):
        """A buffer that the victim may map. False if the broker has given none."""
        if not self.device.blanks:
            self.device.drain()
        while self.device.blanks:
            self.buffer, self.descriptor = self.device.blanks.pop()
            with contextlib.suppress(PermissionError):  # another attack has already sized and sealed it
                os.ftruncate(self.descriptor, BUFFER_BYTES)
                self.device.take_and_grant(self.buffer, self.channel.peer)
                return True
            self.close()
        return False

    def connect(self, link):
        self.channel.say(QUEUE_PAIR_READY, source_port=link.port, destination_port=link.victim_port, domain=self.key,
                         source=link.own_queue_pair, destination=link.victim_queue_pair)

    def connect_first(self):
        """The queue pair of the first link, and the memory that the handshake names."""
        self.connect(self.links[0])
        self.channel.say(ANNOUNCE, domain=self.key, rkey=self.key, address=BUFFER_ADDRESS, size=BUFFER_BYTES,
                         instance=self.device.instance, number=self.buffer)
        self.channel.ring()
        self.state = "connected"
        if self.role == "server":
            self.state = "confirm_link"
            self.due = [(self.links[0], self.confirm_link(self.links[0]))]

    def clc_answer(self, kind, **changes):
        make = clc.answer_v1 if self.version == 1 else clc.answer
        values = {"peer_id": self.device.peer, "queue_pair": self.links[0].own_queue_pair, "rkey": self.key,
                  "token": self.token, "address": BUFFER_ADDRESS, **changes}
        if self.version == 2:
            values.setdefault("max_links", LINKS_MAX)
        return self.with_mac(make(kind, self.gid, **values), CLC_MAC_AT)

    def with_mac(self, message, at):
        """In version 1 the MAC is part of a peer's name: a group with another one is another group."""
        if self.version == 2:
            return message
        return message[:at] + b"\x02" + struct.pack(">IB", self.key, 1) + message[at + 6:]

    def take_clc(self, message):
        """What the victim's Accept or Confirm says."""
        self.links[0].victim_queue_pair = int.from_bytes(message.data[38:41], "big")
        self.victim_token = int.from_bytes(message.data[46:50], "big")

    # Messages

    def header(self, kind, flags=0):
        first = VERSION_2 + kind if self.version == 2 else kind
        return bytearray([first, LLC_BYTES, 0, flags]) + bytearray(LLC_BYTES - 4)

    def gid_of(self, link):
        return self.gid[:7] + bytes([link.port]) + self.gid[8:]

    def confirm_link(self, link, flags=NO_EYECATCHER):
        data = self.header(CONFIRM_LINK, flags)
        data[4:10], data[10:26] = clc.MAC, self.gid_of(link)
        data[26:29] = link.own_queue_pair.to_bytes(3, "big")
        data[29], data[34], data[35] = link.number, LINKS_MAX, 255
        return data

    def add_link(self, link, flags=0, keys=None):
        data = self.header(ADD_LINK, flags)
        data[4:10], data[12:28] = clc.MAC, self.gid_of(link)
        data[28:31] = link.own_queue_pair.to_bytes(3, "big")
        data[31], data[32] = link.number, 5
        data[33:36] = b"\0\0\1"
        if self.version == 2:
            keys = [self.key_row()] if keys is None else keys
            data += bytes([0x80, 0]) + self.gid_of(link) + bytes(8) + struct.pack("<H", len(keys)) + b"".join(keys)
        return data

    def key_row(self, key=None):
        key = self.key if key is None else key
        return struct.pack(">IIQ", key, key, BUFFER_ADDRESS)

    def add_link_cont(self, link, flags=0, left=1):
        data = self.header(ADD_LINK_CONT, flags)
        data[4], data[5] = link.number, left
        data[8:24] = self.key_row()
        return data

    def delete_link(self, number, flags=ORDERLY, reason=0x00010000):
        data = self.header(DELETE_LINK, flags)
        data[4] = number
        data[5:9] = struct.pack(">I", reason)
        return data

    def confirm_rkey(self, key, others=(), flags=0, count=None):
        data = self.header(CONFIRM_RKEY, flags)
        data[4] = len(others) if count is None else count
        data[5:17] = struct.pack(">IQ", key, BUFFER_ADDRESS)
        for at, number in enumerate(others[:2]):
            data[17 + 13 * at:30 + 13 * at] = struct.pack(">BIQ", number, key, BUFFER_ADDRESS)
        return data

    def confirm_rkey_cont(self, left, numbers=()):
        data = self.header(CONFIRM_RKEY_CONT)
        data[4] = left
        for at, number in enumerate(numbers[:3]):
            data[5 + 13 * at:18 + 13 * at] = struct.pack(">BIQ", number, self.key, BUFFER_ADDRESS)
        return data

    def delete_rkey(self, keys):
        data = self.header(DELETE_RKEY)
        data[4] = len(keys) & 0xFF
        for at, key in enumerate(keys[:8]):
            data[8 + 4 * at:12 + 4 * at] = struct.pack(">I", key)
        return data

    def request_link(self):
        """The client's request for another link."""
        if self.version == 1:
            data = self.header(ADD_LINK)
            data[4:10], data[12:28] = clc.MAC, self.gid
            return data
        data = self.header(REQ_ADD_LINK)
        data[24] = 1
        data[28:44] = self.gid
        return data

    def cdc(self, sequence, producer=(0, 0), consumer=(0, 0), flags=0, state=0, token=None):
        data = bytearray(44)
        data[0], data[1] = CDC, 44
        struct.pack_into(">HI", data, 2, sequence, self.victim_token if token is None else token)
        struct.pack_into(">HI", data, 10, *producer)
        struct.pack_into(">HI", data, 18, *consumer)
        data[24], data[25] = flags, state
        return data

    def send(self, data, link=None):
        link = link or self.carrier()
        self.channel.send(link.victim_queue_pair, link.own_queue_pair, bytes(data))
        self.channel.ring()

    def carrier(self):
        return self.links[0]

    def receive(self, seconds):
        """The victim's next message on a link of this group, or None."""
        deadline = time.monotonic() + seconds
        while True:
            # The victim may send on another channel between the two devices than this side does.
            for channel in self.device.channels:
                if channel.peer == self.channel.peer and (message := self.next_message(channel)):
                    return message
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)
            self.device.drain()

    def next_message(self, channel):
        for destination, payload in channel.received():
            link = next((one for one in self.all_links() if one.own_queue_pair == destination), None)
            if link is not None and len(payload) >= MESSAGE_BYTES_MIN:
                message = Message(link, payload)
                self.heard.append(message.name)
                return message
        return None

    def all_links(self):
        """With the one that is being added."""
        return self.links + ([self.adding] if self.adding else [])

    # Behaviour of an honest peer

    def reach(self, target, seconds):
        """Behaves until `target` is the state, and leaves what is due there undone. True if that came about."""
        deadline = time.monotonic() + seconds
        while self.state != target:
            for link, data in self.take_due():
                self.send(data, link)
            if self.role == "server" and self.state in ("links_1", "links_2") and self.adding is None:
                self.begin_add_link()
            message = self.receive(max(0.0, deadline - time.monotonic()))
            if message is None:
                return False
            state = self.meets(message)
            if state:
                self.state = state
                self.pending = message
            if self.state != target:
                self.pending = None
                self.due = self.answers(message)
                if self.state not in WAITING_FOR_SERVER or self.role == "client":
                    for link, data in self.take_due():
                        self.send(data, link)
        return True

    def take_due(self):
        """What an honest peer would send now, and on which link."""
        due, self.due = self.due, []
        if self.pending is not None:
            due, self.pending = due + self.answers(self.pending), None
        return due

    def begin_add_link(self):
        number = len(self.links) + 1
        self.adding = Link(number, number)
        self.send(self.add_link(self.adding))

    def meets(self, message):
        """The state in which this message leaves the group as long as it is not answered."""
        if message.is_cdc:
            return None
        if self.role == "client":
            if message.is_response:
                return None
            if message.kind == CONFIRM_LINK:
                return "confirm_link" if message.link is self.links[0] else "confirm_added"
            return {ADD_LINK: "add_link", ADD_LINK_CONT: "keys"}.get(message.kind)
        if not message.is_response:
            return None
        if message.kind == ADD_LINK and not message.data[3] & REJECTED and self.adding is not None:
            return "add_link"
        if message.kind == ADD_LINK_CONT:
            return "keys" if self.version == 1 else None
        return None

    def answers(self, message):
        """What an honest peer sends, and on which link; the state changes as if it is sent."""
        if message.is_cdc:
            return []
        if message.kind in (CONFIRM_RKEY, CONFIRM_RKEY_CONT, DELETE_RKEY, TEST_LINK, DELETE_LINK, REQ_ADD_LINK) \
                and not message.is_response:
            return [(message.link, self.echoed(message))]
        return self.client_answers(message) if self.role == "client" else self.server_answers(message)

    def echoed(self, message):
        data = bytearray(message.data)
        data[3] |= RESPONSE
        if message.kind == DELETE_RKEY:
            data[5] = 0
        if message.kind == DELETE_LINK:
            data[5:9] = bytes(4)
        return data

    def client_answers(self, message):
        if message.is_response:
            return []
        if message.kind == CONFIRM_LINK:
            link = message.link
            link.number = message.data[29]
            self.activate(link)
            return [(link, self.confirm_link(link, RESPONSE | NO_EYECATCHER))]
        if message.kind == ADD_LINK:
            number = message.data[31]
            link = self.adding = Link(number, min(LINKS_MAX, len(self.links) + 1),
                                      int.from_bytes(message.data[28:31], "big"), message.data[19])
            self.connect(link)
            return [(message.link, self.add_link(link, RESPONSE))]
        if message.kind == ADD_LINK_CONT and self.adding is not None:
            return [(message.link, self.add_link_cont(self.adding, RESPONSE))]
        return []

    def server_answers(self, message):
        if not message.is_response:
            return []
        if message.kind == CONFIRM_LINK:
            self.activate(message.link)
            return []
        if message.kind == ADD_LINK and message.data[3] & REJECTED:
            self.adding = None
            return []
        if message.kind == ADD_LINK and self.adding is not None:
            self.adding.victim_queue_pair = int.from_bytes(message.data[28:31], "big")
            self.adding.victim_port = message.data[19]
            self.connect(self.adding)
            if self.version == 1:
                return [(message.link, self.add_link_cont(self.adding))]
            self.state = "confirm_added"
            return [(self.adding, self.confirm_link(self.adding))]
        if message.kind == ADD_LINK_CONT and self.adding is not None:
            if message.data[5] > 2:
                return [(message.link, self.add_link_cont(self.adding))]
            self.state = "confirm_added"
            return [(self.adding, self.confirm_link(self.adding))]
        return []

    def activate(self, link):
        if link is self.adding:
            self.links.append(link)
            self.adding = None
        link.active = True
        self.state = f"links_{len(self.links)}"

    def vanish(self, links=None):
        """The queue pairs are destroyed."""
        for link in self.all_links() if links is None else links:
            self.channel.say(QUEUE_PAIR_GONE, source=link.own_queue_pair, destination=link.victim_queue_pair)
        self.channel.ring()

    def close(self):
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
