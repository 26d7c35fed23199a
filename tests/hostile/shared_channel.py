"""One side of a shared-memory channel, as a program writes it by hand; docs/shm.md has the layout."""
import contextlib
import mmap
import os
import socket
import struct

CHANNEL_BYTES = 164480
QUEUE_PAIR_READY, QUEUE_PAIR_GONE, ANNOUNCE, WITHDRAW = range(1, 5)
CONTROL = struct.Struct("=BBBxIIIIxxxxQQQQ8x")
CONTROL_OFFSET, CONTROL_RING_BYTES, CONTROL_SLOTS = 128, 16512, 256
MESSAGE_OFFSET, MESSAGE_RING_BYTES, MESSAGE_SLOTS = 33152, 65664, 1024
SLOT_BYTES, SLOTS_OFFSET, HEAD_OFFSET = 64, 128, 64
MESSAGE_HEADER_BYTES = 16


class Channel:
    """One side of a channel that the broker created."""

    def __init__(self, record, descriptors):
        self.side, self.peer = record["side"], record["peer"]
        self.memory_fd = descriptors[0]
        self.ring_end, self.watch_end = (socket.socket(fileno=fd) for fd in descriptors[1:])
        self.memory = mmap.mmap(self.memory_fd, CHANNEL_BYTES)
        self.control_tail = self.message_tail = 0
        self.spoiled = False  # an attack on the rings may have ended it

    def word(self, offset, value=None):
        if value is None:
            return struct.unpack_from("=Q", self.memory, offset)[0]
        struct.pack_into("=Q", self.memory, offset, value & ((1 << 64) - 1))
        return value

    def control_ring(self, side):
        return CONTROL_OFFSET + side * CONTROL_RING_BYTES

    def message_ring(self, side):
        return MESSAGE_OFFSET + side * MESSAGE_RING_BYTES

    def say(self, kind, source_port=1, destination_port=1, domain=0, source=0, destination=0, rkey=0, address=0, size=0,
            instance=0, number=0):
        """Writes one control message, as a device does."""
        ring = self.control_ring(self.side)
        slot = ring + SLOTS_OFFSET + self.control_tail % CONTROL_SLOTS * SLOT_BYTES
        CONTROL.pack_into(self.memory, slot, kind, source_port, destination_port, domain, source, destination, rkey,
                          address, size, instance, number)
        self.control_tail += 1
        self.word(ring, self.control_tail)

    def send(self, destination, source, payload, length=None):
        """Writes one message into the message ring."""
        ring = self.message_ring(self.side)
        header = struct.pack("=IIQ", destination, source, len(payload) if length is None else length)
        data = header + payload
        slots = -(-len(data) // SLOT_BYTES)
        for index in range(slots):
            slot = ring + SLOTS_OFFSET + (self.message_tail + index) % MESSAGE_SLOTS * SLOT_BYTES
            part = data[index * SLOT_BYTES:(index + 1) * SLOT_BYTES]
            self.memory[slot:slot + len(part)] = part
        self.message_tail += slots
        self.word(ring, self.message_tail)

    def consume(self):
        """Consumes everything that the peer has sent, because a peer that waits for room attacks nothing."""
        for ring in (self.control_ring(1 - self.side), self.message_ring(1 - self.side)):
            self.word(ring + HEAD_OFFSET, self.word(ring))

    def received(self):
        """Messages in the ring, consumed one by one: destination and payload. Control messages are consumed unread."""
        control = self.control_ring(1 - self.side)
        self.word(control + HEAD_OFFSET, self.word(control))
        ring = self.message_ring(1 - self.side)
        while (head := self.word(ring + HEAD_OFFSET)) < self.word(ring):
            def slot(at):
                start = ring + SLOTS_OFFSET + at % MESSAGE_SLOTS * SLOT_BYTES
                return self.memory[start:start + SLOT_BYTES]
            destination, _, length = struct.unpack_from("=IIQ", slot(head))
            slots = -(-(MESSAGE_HEADER_BYTES + length) // SLOT_BYTES)
            if slots > MESSAGE_SLOTS:  # written by this side's own attack
                return
            data = b"".join(slot(head + index) for index in range(slots))
            self.word(ring + HEAD_OFFSET, head + slots)
            yield destination, data[MESSAGE_HEADER_BYTES:MESSAGE_HEADER_BYTES + length]

    def ring(self, times=1):
        for _ in range(times):
            with contextlib.suppress(OSError):
                self.ring_end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.memory.close()
        os.close(self.memory_fd)
        self.ring_end.close()
        self.watch_end.close()
