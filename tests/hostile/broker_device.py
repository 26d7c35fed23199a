"""A device at the broker that an attacker drives by hand; docs/broker.md has the records and requests."""
import contextlib
import mmap
import os
import select
import socket
import struct
import time

from shared_channel import CHANNEL_BYTES, Channel

REGISTRATION_SECONDS = 1
RECORD = struct.Struct("=4sBBBB8s5sB2xQQI20x")
REQUEST = struct.Struct("=BBHI8sQQ")
REQUEST_RING, WELCOME, REFUSED, CHANNEL, BLANK, GRANTED, ROOM = range(1, 8)
REGISTER, CONNECT, TAKE, GRANT, FREE = range(1, 6)
REQUEST_SLOTS, REQUEST_SLOTS_OFFSET = 1024, 4096
LAYOUT = 2


class Device:
    """A device at the broker, like that of a sidecar's worker."""

    def __init__(self, rng):
        self.peer = rng.randbytes(8)
        self.channels, self.blanks, self.granted = [], [], []
        self.met = set()  # (peer id, role, version): a first contact with it was begun
        self.connection = self.ring_memory = None
        self.tail = 0
        self.instance = 0
        self.fabric = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        for index in range(64):
            with contextlib.suppress(OSError):
                self.listener.bind(f"\0fairlead-proxy-{index}")
                break
        else:
            raise OSError("all names of devices are taken")
        self.listener.listen(4)

    def register(self):
        """Listens like an honest device. False if the broker does not connect, because it may delay this pod."""
        deadline = time.monotonic() + REGISTRATION_SECONDS
        while self.fabric is None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.connection or self.listener], [], [], left)[0]:
                return False
            if self.connection is None:
                self.connection = self.listener.accept()[0]
                self.connection.setblocking(False)
            if not self.drain():
                return False
        return True

    def drain(self):
        """Reads the broker's records. False if it has closed the connection."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self.connection, RECORD.size, 8)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self.handle(data, descriptors)

    def handle(self, data, descriptors):
        magic, version, kind, refusal, side, peer, fabric, _, instance, buffer, _ = RECORD.unpack(data)
        assert magic == b"FLbk" and version == 2, data
        if kind == REQUEST_RING:
            self.instance = instance
            self.ring_memory = mmap.mmap(descriptors[0], 0)
            self.request(REGISTER, layout=LAYOUT, channel_bytes=CHANNEL_BYTES, peer=self.peer)
            self.ring()
        elif kind == WELCOME:
            self.fabric = fabric
        elif kind == CHANNEL:
            self.channels.append(Channel({"side": side, "peer": peer}, descriptors))
            return
        elif kind == BLANK:
            self.blanks.append((buffer, descriptors[0]))
            return
        elif kind == GRANTED:
            self.granted.append((peer, instance, buffer, descriptors[0]))
            return
        for descriptor in descriptors:
            os.close(descriptor)

    def request(self, kind, layout=0, channel_bytes=0, peer=bytes(8), instance=0, buffer=0, zero=0):
        slot = REQUEST_SLOTS_OFFSET + self.tail % REQUEST_SLOTS * REQUEST.size
        REQUEST.pack_into(self.ring_memory, slot, kind, layout, zero, channel_bytes, peer, instance, buffer)
        self.tail += 1
        struct.pack_into("=Q", self.ring_memory, 0, self.tail & ((1 << 64) - 1))

    def ring(self, times=1):
        for _ in range(times):
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)

    def connect(self, peer):
        self.request(CONNECT, peer=peer)
        self.ring()

    def take_and_grant(self, buffer, peer):
        """The buffer is this device's, and the peer gets its memory."""
        self.request(TAKE, instance=self.instance, buffer=buffer)
        self.request(GRANT, peer=peer, instance=self.instance, buffer=buffer)
        self.ring()

    def wait_record(self, seconds):
        """Waits for records of the broker, and handles them. False if it has closed the connection."""
        select.select([self.connection], [], [], seconds)
        return self.drain()

    def close(self):
        for channel in self.channels:
            channel.close()
        for descriptor in [blank[1] for blank in self.blanks] + [grant[3] for grant in self.granted]:
            os.close(descriptor)
        for one in (self.connection, self.listener):
            if one is not None:
                one.close()
        if self.ring_memory is not None:
            self.ring_memory.close()
