"""Records of the keeper's protocol, by docs/hand-over.md, "The keeper's socket"."""
import struct
import typing

(HELLO, PARCEL, DESCRIPTORS, TAKEN, REFUSED, PARK) = range(1, 7)
(OFFER, ACCEPTED, FETCH) = range(10, 13)
ANSWERS_OFFERS = 4  # of the flags of hello
MALFORMED = 4  # of refused
DESCRIPTORS_OF_RECORD = 4
MAGIC, VERSION = b"FLk", 1
FORMAT = struct.Struct("<3sBBBBBIIQQ")


class Record(typing.NamedTuple):
    kind: int
    refusal: int
    holds: int
    flags: int
    count: int
    description: int
    size: int
    table: int


def pack(kind, refusal=0, holds=0, flags=0, count=0, description=0, size=0, table=0, magic=MAGIC, version=VERSION):
    return FORMAT.pack(magic, version, kind, refusal, holds, flags, count, description, size, table)


def unpack(data):
    """Bytes behind a record are of a newer version."""
    return Record(*FORMAT.unpack(data[:FORMAT.size])[2:])
