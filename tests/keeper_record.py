"""Records of the keeper's protocol, by docs/hand-over.md, "The keeper's socket"."""
import struct
import typing

(HELLO, PARCEL, DESCRIPTORS, TAKEN, REFUSED, PARK, LEDGER, HOLD, RELEASE, OFFER, ACCEPTED, FETCH) = range(1, 13)
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
    lost: int
    size: int
    died: int


def pack(kind, refusal=0, holds=0, flags=0, count=0, lost=0, size=0, died=0, magic=MAGIC, version=VERSION):
    return FORMAT.pack(magic, version, kind, refusal, holds, flags, count, lost, size, died)


def unpack(data):
    """Bytes behind a record are of a newer version."""
    return Record(*FORMAT.unpack(data[:FORMAT.size])[2:])
