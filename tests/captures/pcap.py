"""The packet captures of this folder: pcap files of `tcpdump -i any`, each packet with a header of Linux cooked v2."""
import struct

MAGIC, HEADER_BYTES, RECORD_BYTES = b"\xd4\xc3\xb2\xa1", 24, 16
COOKED_V2_BYTES, IPV4 = 20, b"\x08\x00"


class NoCapture(Exception):
    """The text says what the file is not."""


def datagrams(data):
    """The IPv4 datagrams of a capture, whose content is given."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        raise NoCapture("not a pcap file in little-endian order with microseconds")
    at = HEADER_BYTES
    while at + RECORD_BYTES <= len(data):
        (length,) = struct.unpack("<8xI4x", data[at:at + RECORD_BYTES])
        frame = data[at + RECORD_BYTES:at + RECORD_BYTES + length]
        at += RECORD_BYTES + length
        if frame.startswith(IPV4):
            yield frame[COOKED_V2_BYTES:]
