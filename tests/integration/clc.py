"""CLC messages, encoded and decoded independently of the proxy after docs/wire.md. They verify the
proxy's own codecs, and can produce messages that these never write."""
import ipaddress
import struct

import peers

EYECATCHER = bytes.fromhex("e2d4c3d9")
PROPOSAL, ACCEPT, CONFIRM, DECLINE = 1, 2, 3, 4
VENDOR_OUI = bytes.fromhex("fa1ead")
UEID = "FAIRLEAD"
MAC = bytes.fromhex("020000000001")

NO_DEVICE = 0x03030000
NO_RDMA_DEVICE = 0x03030002
NO_UEID = 0x03030008
NO_ROUTE = 0x030E0000
MODE_MISMATCH = 0x03040000
RELEASE_MISMATCH = 0x03030009
MAX_CONNECTIONS = 0x0303000A
MAX_LINKS = 0x0303000B
SYNC_ERROR = 0x04000000
NO_ACTIVE_LINK = 0x030A0000
LINK_NOT_FOUND = 0x030B0000
INDIRECT_MISMATCH = 0x030F0000
NO_SMC = 0x03010000
PREFIX_MISMATCH = 0x03070000
VERSION_MISMATCH = 0x030C0000
CONFIRM_LINK_TIMEOUT = 0x02010000
MEMORY = 0x01010000
MEMORY_REGISTRATION = 0x09990003


class Gid:
    """The address of a proxy on its shared-memory device: fabric, port and peer id."""

    def __init__(self, proxy):
        self.bytes = ipaddress.IPv6Address(proxy.get_json("/devices")["devices"][0]["gid"]).packed
        assert self.bytes[:2] == b"\xfd\xfa", self.bytes
        self.fabric = self.bytes[2:7]
        self.peer_id = self.bytes[8:]


def frame(kind, body, bits, length=None, begin=EYECATCHER, end=EYECATCHER):
    if length is None:
        length = 8 + len(body) + 4
    return begin + struct.pack(">BHB", kind, length, bits) + body + end


def padded(text):
    return text.encode().ljust(32, b" ")


def proposal(peer_id=bytes(8), fabric=bytes(5), ueids=(UEID,), gid=bytes(16), max_connections=255,
             max_links=1, bits=0x22, release=1, **odd):
    vendor = (VENDOR_OUI if any(fabric) else bytes(3)) + fabric
    body = peer_id + bytes(16) + MAC + bytes(2)
    body += bytes(10) + struct.pack(">H", 28) + vendor + bytes(20)
    body += struct.pack(">BBBB", len(ueids), 0, 0, release << 4) + bytes(4) + gid
    body += struct.pack(">BBH", max_connections, max_links, 0) + bytes(12)
    body += b"".join(padded(ueid) for ueid in ueids)
    return frame(PROPOSAL, body, bits, **odd)


def answer(kind, gid, peer_id=None, queue_pair=77, rkey=1, index=1, token=0x1234, size_code=0, mtu=5,
           address=0x10000, psn=1, first_contact=True, bits=None, release=1, max_connections=255,
           max_links=1, ueid=UEID, gids=None, direct=True, **odd):
    """An Accept or a Confirm."""
    body = (gid[8:] if peer_id is None else peer_id) + gid + MAC
    body += queue_pair.to_bytes(3, "big") + struct.pack(">IBI", rkey, index, token)
    body += bytes([size_code << 4 | mtu, 0]) + struct.pack(">Q", address) + bytes(1)
    body += psn.to_bytes(3, "big") + padded(ueid) + bytes(8)
    if first_contact:
        body += bytes([0x80 if direct else 0, 2 << 4 | release]) + bytes(2) + padded("fake")
        body += bytes([max_connections, max_links]) + bytes(14)
        if kind == CONFIRM:
            gids = [gid] if gids is None else gids
            body += bytes([len(gids)]) + bytes(3) + b"".join(gids)
    if bits is None:
        bits = 0x28 if first_contact else 0x20
    return frame(kind, body, bits, **odd)


def subnet(network="127.0.0.0", bits=8):
    """An IP area: the client's subnet in version 1."""
    return ipaddress.IPv4Address(network).packed + bytes([bits, 0, 0, 0])


def proposal_v1(peer_id, fabric, gid, area=None, mac=MAC, bits=0x10, **odd):
    block = bytes(12) + VENDOR_OUI + fabric + bytes(20)
    body = peer_id + gid + mac + struct.pack(">H", len(block)) + block + (area or subnet())
    return frame(PROPOSAL, body, bits, **odd)


def answer_v1(kind, gid, peer_id=None, queue_pair=77, rkey=1, index=1, token=0x1234, size_code=0, mtu=5,
              address=0x10000, psn=1, first_contact=True, **odd):
    body = (gid[8:] if peer_id is None else peer_id) + gid + MAC
    body += queue_pair.to_bytes(3, "big") + struct.pack(">IBI", rkey, index, token)
    body += bytes([size_code << 4 | mtu, 0]) + struct.pack(">Q", address) + bytes(1) + psn.to_bytes(3, "big")
    return frame(kind, body, 0x18 if first_contact else 0x10, **odd)


def decline(reason, bits=0x20, peer_id=bytes(8)):
    return frame(DECLINE, peer_id + struct.pack(">I", reason) + bytes([2 << 4]) + bytes(19), bits)


def decline_v1(reason, bits=0x10):
    return frame(DECLINE, bytes(8) + struct.pack(">I", reason) + bytes(4), bits)


DECLINE_BYTES = {1: len(decline_v1(NO_DEVICE)), 2: len(decline(NO_DEVICE))}


class Message:
    """A message that a proxy sent."""

    def __init__(self, data):
        self.data = data
        self.kind = data[4]
        self.bits = data[7]
        assert data[:4] == EYECATCHER and data[-4:] == EYECATCHER, data.hex()
        assert struct.unpack(">H", data[5:7])[0] == len(data), data.hex()

    @property
    def peer_id(self):
        return self.data[8:16]

    @property
    def gid(self):  # of an Accept or a Confirm
        return self.data[16:32]

    @property
    def reason(self):  # of a Decline
        return struct.unpack(">I", self.data[16:20])[0]

    @property
    def out_of_sync(self):
        return bool(self.bits & 0x08)


def receive(sock, kind=None):
    head = peers.receive_exactly(sock, 8)
    assert head[:4] == EYECATCHER, head.hex()
    length = struct.unpack(">H", head[5:7])[0]
    message = Message(head + peers.receive_exactly(sock, length - 8))
    assert kind in (None, message.kind), f"CLC type {message.kind}, not {kind}: {message.data.hex()}"
    return message
