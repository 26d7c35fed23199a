"""RoCEv2 packets over IPv4, built and read: Ethernet, IP, UDP, BTH, RETH, AETH, payload, ICRC.

The ICRC is the CRC-32 of Ethernet over 8 bytes of ones and the packet from the IP header on, where fields that routers
change count as ones. It protects against errors, not against attackers: everybody can compute it.
"""
import dataclasses
import socket
import struct
import zlib

UDP_PORT = 4791
PSN_COUNT = 1 << 24
# Opcodes of reliable connections.
SEND_ONLY = 0x04
WRITE_ONLY = 0x0a
ACKNOWLEDGE = 0x11
REQUESTS = range(0x00, 0x0d)
WITH_RETH = (0x06, 0x0a, 0x0b, 0x0c)
WITH_AETH = (0x0d, 0x0f, 0x10, 0x11)
NAK_REMOTE_ACCESS = 0x62

ETHERNET, IP, UDP, BTH, RETH, ICRC = 14, 20, 8, 12, 16, 4


@dataclasses.dataclass
class Packet:
    """One packet. `reth` is (address, key, length), `aeth` (syndrome, message sequence number)."""
    source: str
    target: str
    opcode: int
    queue_pair: int
    psn: int
    payload: bytes = b""
    reth: tuple = None
    aeth: tuple = None
    source_port: int = 49152
    partition: int = 0xffff
    solicited: bool = False
    ack: bool = True
    migrated: bool = True
    type_of_service: int = 0
    time_to_live: int = 64
    identification: int = 0
    flags: int = 0x4000  # of IP: do not fragment
    udp_checksum: int = 0

    def transport(self):
        """From the BTH to the padding."""
        pad = -len(self.payload) % 4
        bits = (0x80 if self.solicited else 0) | (0x40 if self.migrated else 0) | pad << 4
        header = struct.pack("!BBHII", self.opcode, bits, self.partition, self.queue_pair,
                             (0x80000000 if self.ack else 0) | self.psn % PSN_COUNT)
        if self.reth:
            header += struct.pack("!QII", *self.reth)
        if self.aeth:
            header += struct.pack("!I", self.aeth[0] << 24 | self.aeth[1])
        return header + self.payload + bytes(pad)

    def datagram(self):
        """From the IP header to the ICRC."""
        transport = self.transport()
        length = UDP + len(transport) + ICRC
        udp = struct.pack("!HHHH", self.source_port, UDP_PORT, length, self.udp_checksum)
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, self.type_of_service, IP + length, self.identification, self.flags,
                         self.time_to_live, socket.IPPROTO_UDP, 0, socket.inet_aton(self.source),
                         socket.inet_aton(self.target))
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        return ip + udp + transport + icrc(ip, udp, transport)


def frame(packet, source_mac, target_mac):
    """With an Ethernet header."""
    return hardware(target_mac) + hardware(source_mac) + b"\x08\x00" + packet.datagram()


def hardware(mac):
    return bytes.fromhex(mac.replace(":", ""))


def checksum(header):
    """Of an IP header whose own field is zero."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total ^ 0xffff


def icrc(ip, udp, transport):
    masked = (b"\xff" * 8 + ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
              + udp[:6] + b"\xff\xff" + transport[:4] + b"\xff" + transport[5:])
    return struct.pack("<I", zlib.crc32(masked))


def parse(datagram):
    """The packet in an IPv4 datagram, or None if it is none of RoCEv2. The ICRC is not checked."""
    if len(datagram) < IP + UDP + BTH + ICRC or datagram[0] != 0x45 or datagram[9] != socket.IPPROTO_UDP:
        return None
    (service, total, identification, flags, time_to_live) = struct.unpack("!xBHHHB", datagram[:9])
    source_port, port, _, udp_checksum = struct.unpack("!HHHH", datagram[IP:IP + UDP])
    if port != UDP_PORT or total > len(datagram):
        return None
    rest = datagram[IP + UDP:total - ICRC]
    opcode, bits, partition, queue_pair, psn = struct.unpack("!BBHII", rest[:BTH])
    rest = rest[BTH:]
    reth = aeth = None
    if opcode in WITH_RETH:
        reth, rest = struct.unpack("!QII", rest[:RETH]), rest[RETH:]
    if opcode in WITH_AETH:
        (word,) = struct.unpack("!I", rest[:4])
        aeth, rest = (word >> 24, word & 0xffffff), rest[4:]
    payload = rest[:len(rest) - (bits >> 4 & 3)]
    return Packet(socket.inet_ntoa(datagram[12:16]), socket.inet_ntoa(datagram[16:20]), opcode, queue_pair & 0xffffff,
                  psn & 0xffffff, payload, reth, aeth, source_port, partition, bool(bits & 0x80), bool(psn >> 31),
                  bool(bits & 0x40), service, time_to_live, identification, flags, udp_checksum)
