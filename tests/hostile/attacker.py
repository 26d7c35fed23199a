"""A hostile sidecar, driven by seeds. It runs in the network namespace and cgroup of its own pod, as the sidecar's
user, and speaks the protocols of docs/broker.md, docs/shm.md and docs/wire.md by hand. It sends messages in and out
of order, with wrong values, too much or too little, and sends every kind of descriptor wherever possible.

    attacker.py --victim GID,ADDRESS,VERSION ... --victim-port PORT SEED ...

A victim's version is the one that it speaks as a client. One seed is one run of some actions, drawn from that seed
alone, and of the kinds of attack that kinds.py has for it. The last line of the output is JSON: the number of times that
each action ran. An action that the kernel refuses counts under its name and the error; contacts.py has the other names.
Each seed first writes a line to standard error that says how to run it again.
"""
import argparse
import collections
import contextlib
import ctypes
import fcntl
import ipaddress
import json
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(1, str(HERE.parent / "integration"))

import clc  # pylint: disable=wrong-import-position
import contacts  # pylint: disable=wrong-import-position
import framed  # pylint: disable=wrong-import-position
import frames  # pylint: disable=wrong-import-position
import kinds  # pylint: disable=wrong-import-position
from broker_device import (CONNECT, FREE, GRANT, RECORD, REGISTER,  # pylint: disable=wrong-import-position
                           REGISTRATION_SECONDS, TAKE, Device)
from drawing import mutated, number  # pylint: disable=wrong-import-position
from shared_channel import (ANNOUNCE, CHANNEL_BYTES, HEAD_OFFSET, QUEUE_PAIR_GONE,  # pylint: disable=wrong-import-position
                            QUEUE_PAIR_READY, WITHDRAW)

ADMIN_PORT = 4590
DEVICES_MAX = 3
CONNECTIONS_MAX = 24
KEPT_DESCRIPTORS_MAX = 400
ACTIONS_PER_SEED = 8
F_ADD_SEALS, F_SETPIPE_SZ = 1033, 1031
O_PATH = 0o10000000

class Attacker:
    """The state of one attacking process, and all its actions."""

    def __init__(self, victims, port, slowness):
        self.victims = [victim.gid for victim in victims]
        self.addresses, self.port = [victim.address for victim in victims], port
        self.counts = collections.Counter()
        self.devices = []
        self.connections = []
        self.kept = []  # sockets and descriptors that only use something up
        self.children = []
        self.contacts = contacts.Contacts(self, victims, port, slowness)
        self.actions = [
            (4, self.open_device), (1, self.close_device), (3, self.odd_registration), (4, self.connect_victim),
            (3, self.request_nonsense), (2, self.request_ring_indices), (2, self.request_flood), (2, self.silence),
            (4, self.control_nonsense), (2, self.control_indices), (4, self.message_nonsense), (2, self.message_indices),
            (2, self.scribble), (2, self.sleep_words), (3, self.bell_storm), (1, self.eat_the_byte),
            (2, self.close_channel), (2, self.hold_in_a_child), (3, self.buffers), (2, self.giant_grants),
            (2, self.resize_memory), (4, self.send_descriptors), (2, self.descriptors_in_flight),
            (2, self.epoll_watches), (1, self.pipe_pages),
            (4, self.handshake), (3, self.deep_link), (2, self.late_confirm), (2, self.lying_tail), (2, self.tcp_nonsense), (5, self.in_frames), (2, self.slow_http), (1, self.old_names),
        ]

    def run(self, seed):
        print(f"attacker: seed {seed}: {' '.join(kinds.of_seed(seed))}; again with HOSTILE_FIRST_SEED={seed} "
              "HOSTILE_SEEDS=1", file=sys.stderr, flush=True)
        rng = random.Random(seed)
        actions = rng.choices([action for _, action in self.actions], [weight for weight, _ in self.actions],
                              k=ACTIONS_PER_SEED)
        for action in actions:
            name = action.__name__
            try:
                action(rng)
            except (OSError, ValueError) as error:  # ValueError: a mapping or socket that is closed
                name += f"/{errno_name(error)}"
            self.counts[name] += 1
        for kind in kinds.of_seed(seed):
            self.contacts.run(kind, rng)
        self.tidy_up()

    def tidy_up(self):
        for device in self.devices:
            if device.connection is not None and not device.drain():
                self.counts["hung_up"] += 1
                device.close()
                device.connection = None
        self.devices = [device for device in self.devices if device.connection is not None]
        self.trim()

    def trim(self):
        """Closes old connections and descriptors, all at once."""
        while len(self.connections) > CONNECTIONS_MAX:
            self.connections.pop(0).close()
        while len(self.kept) > KEPT_DESCRIPTORS_MAX:
            close(self.kept.pop(0))
        while len(self.children) > 4:
            end_child(self.children.pop(0))
        for device in self.devices:
            while len(device.channels) > 6:
                device.channels.pop(0).close()
            while len(device.granted) > 64:
                os.close(device.granted.pop(0)[3])

    def finish(self):
        # The children first: they hold the output open, for which the test waits.
        for child in self.children:
            end_child(child)
        self.contacts.finish()
        for device in self.devices:
            device.close()
        for one in self.connections + self.kept:
            close(one)

    # At the broker

    def device(self, rng):
        if not self.devices:
            self.open_device(rng)
        if not self.devices:
            raise OSError("no device")
        device = rng.choice(self.devices)
        device.drain()
        return device

    def channel(self, rng):
        device = self.device(rng)
        if not device.channels:
            self.connect_victim(rng, device)
        if not device.channels:
            raise OSError("no channel")
        channel = rng.choice(device.channels)
        channel.spoiled = True
        return device, channel

    def open_device(self, rng):
        if len(self.devices) >= DEVICES_MAX:
            self.devices.pop(0).close()
        device = Device(rng)
        if device.register():
            self.devices.append(device)
        else:
            device.close()
            raise TimeoutError("not registered")

    def close_device(self, rng):
        if self.devices:
            self.devices.pop(rng.randrange(len(self.devices))).close()

    def odd_registration(self, rng):
        """Wrong ids, sizes and layouts; a second Register; other requests first; or no request at all."""
        device = Device(rng)
        if rng.random() < 0.3:
            device.peer = rng.choice(self.victims)[8:]
        elif rng.random() < 0.2:
            device.peer = bytes(8)
        if not select.select([device.listener], [], [], REGISTRATION_SECONDS)[0]:
            device.close()
            raise TimeoutError("not connected")
        if rng.random() < 0.3:  # the connection waits in the backlog, and ends with the listener
            return device.close()
        device.connection = device.listener.accept()[0]
        device.connection.settimeout(REGISTRATION_SECONDS)
        data, descriptors, _, _ = socket.recv_fds(device.connection, RECORD.size, 8)
        if not data:
            return device.close()
        device.connection.setblocking(False)
        device.ring_memory = mmap.mmap(descriptors[0], 0)
        os.close(descriptors[0])
        for _ in range(rng.randint(0, 3)):
            device.request(rng.choice((REGISTER, REGISTER, CONNECT, TAKE, GRANT, FREE, 0, 77)),
                           layout=number(rng, 8), channel_bytes=rng.choice((CHANNEL_BYTES, number(rng, 32))),
                           peer=device.peer, instance=number(rng, 64), buffer=number(rng, 64))
        device.ring()
        self.kept.append(device)
        return None

    def connect_victim(self, rng, device=None):
        device = device or self.device(rng)
        before = len(device.channels)
        for _ in range(rng.choice((1, 1, 1, 8))):
            device.request(CONNECT, peer=rng.choice(self.victims)[8:])
        device.ring()
        if select.select([device.connection], [], [], 0.1)[0]:
            device.drain()
        if len(device.channels) > before:
            self.counts["channels"] += len(device.channels) - before

    def request_nonsense(self, rng):
        device = self.device(rng)
        for _ in range(rng.randint(1, 20)):
            device.request(rng.choice((REGISTER, CONNECT, TAKE, GRANT, GRANT, FREE, 0, 6, 255)),
                           layout=number(rng, 8), channel_bytes=number(rng, 32),
                           peer=rng.choice((rng.choice(self.victims)[8:], device.peer, bytes(8), rng.randbytes(8))),
                           instance=rng.choice((device.instance, 0, number(rng, 64))), buffer=number(rng, 64),
                           zero=rng.choice((0, 0, 1)))
        device.ring()

    def request_ring_indices(self, rng):
        device = self.device(rng)
        offset = rng.choice((0, 0, 64, 128))
        struct.pack_into("=Q", device.ring_memory, offset, number(rng, 64))
        device.ring(rng.randint(1, 3))

    def request_flood(self, rng):
        """Connects and grants to the victims, as fast as the ring accepts them; answers stay unread."""
        device = self.device(rng)
        for _ in range(rng.randint(100, 1500)):
            if rng.random() < 0.5 or not device.blanks:
                device.request(CONNECT, peer=rng.choice(self.victims)[8:])
            else:
                device.request(GRANT, peer=rng.choice(self.victims)[8:], instance=device.instance,
                               buffer=rng.choice(device.blanks)[0])
        device.ring(rng.randint(1, 200))

    def silence(self, rng):
        """Listeners that never accept, with and without a backlog."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"\0fairlead-proxy-{rng.randrange(64)}")
        listener.listen(rng.choice((0, 0, 8)))
        self.kept.append(listener)

    # On channels

    def control_nonsense(self, rng):
        device, channel = self.channel(rng)
        for _ in range(rng.randint(1, 30)):
            own = rng.choice(device.blanks) if device.blanks else (0, -1)
            channel.say(rng.choice((QUEUE_PAIR_READY, QUEUE_PAIR_GONE, ANNOUNCE, ANNOUNCE, WITHDRAW, 0, 5, 255)),
                        source_port=number(rng, 8), destination_port=number(rng, 8), domain=number(rng, 32),
                        source=number(rng, 32), destination=number(rng, 32), rkey=number(rng, 32),
                        address=number(rng, 64), size=number(rng, 64),
                        instance=rng.choice((device.instance, number(rng, 64))),
                        number=rng.choice((own[0], number(rng, 64))))
        channel.ring()

    def control_indices(self, rng):
        _, channel = self.channel(rng)
        ring = channel.control_ring(rng.choice((0, 1)))
        channel.word(ring + rng.choice((0, HEAD_OFFSET)), number(rng, 64))
        channel.ring()

    def message_nonsense(self, rng):
        _, channel = self.channel(rng)
        channel.consume()
        for _ in range(rng.randint(1, 20)):
            payload = rng.randbytes(rng.choice((0, 1, 44, 48, 48, 200, 8192)))
            channel.send(number(rng, 32), number(rng, 32), payload,
                         length=rng.choice((None, None, number(rng, 64))))
        channel.ring()

    def message_indices(self, rng):
        _, channel = self.channel(rng)
        ring = channel.message_ring(rng.choice((0, 1)))
        channel.word(ring + rng.choice((0, HEAD_OFFSET)), number(rng, 64))
        channel.ring()

    def scribble(self, rng):
        _, channel = self.channel(rng)
        for _ in range(rng.randint(1, 400)):
            channel.word(rng.randrange(CHANNEL_BYTES // 8) * 8, number(rng, 64))
        channel.ring()

    def sleep_words(self, rng):
        _, channel = self.channel(rng)
        for _ in range(100):
            channel.word(rng.choice((0, 64)), rng.choice((0, 1, 2, 3, number(rng, 64))))
            channel.ring()

    def bell_storm(self, rng):
        _, channel = self.channel(rng)
        channel.ring(rng.choice((10, 1000, 5000)))
        with contextlib.suppress(OSError):
            channel.watch_end.shutdown(socket.SHUT_RDWR)

    def eat_the_byte(self, rng):
        _, channel = self.channel(rng)
        for end in (channel.ring_end, channel.watch_end):
            end.setblocking(False)
            with contextlib.suppress(OSError):
                end.recv(16)
        if rng.random() < 0.5:
            channel.ring()

    def close_channel(self, rng):
        device, channel = self.channel(rng)
        device.channels.remove(channel)
        channel.close()

    def hold_in_a_child(self, rng):
        """The registered process continues without its ends; another process keeps them open."""
        device, channel = self.channel(rng)
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        self.children.append(child)
        if rng.random() < 0.5:
            device.channels.remove(channel)
            channel.close()

    def buffers(self, rng):
        """Grants without announcements, announcements without grants, other sizes than announced."""
        device, channel = self.channel(rng)
        if not device.blanks:
            raise OSError("no blank")
        buffer, descriptor = device.blanks[rng.randrange(len(device.blanks))]
        size = rng.choice((0, 1, 4096, 1 << 20, (1 << 20) + 1, 1 << 30, 1 << 40, 1 << 62))
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        if rng.random() < 0.7:
            device.request(TAKE, instance=device.instance, buffer=buffer)
        if rng.random() < 0.7:
            device.request(GRANT, peer=channel.peer, instance=device.instance, buffer=buffer)
        if rng.random() < 0.3:
            device.request(FREE, instance=device.instance, buffer=buffer)
        device.ring()
        for _ in range(rng.randint(0, 4)):
            channel.say(ANNOUNCE, domain=rng.randrange(4), rkey=number(rng, 32), address=number(rng, 64) & ~4095,
                        size=rng.choice((size, number(rng, 64))), instance=device.instance, number=buffer)
        channel.ring()

    def giant_grants(self, rng):
        """The largest buffer, empty, repeatedly: it costs only the victim's address space."""
        device, channel = self.channel(rng)
        if not device.blanks:
            raise OSError("no blank")
        buffer, descriptor = rng.choice(device.blanks)
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 1 << 30)
        for _ in range(rng.randint(100, 600)):
            device.request(GRANT, peer=channel.peer, instance=device.instance, buffer=buffer)
        device.ring()

    def resize_memory(self, rng):
        """Operations that the seals forbid, and operations that they allow."""
        device, channel = self.channel(rng)
        for descriptor in [channel.memory_fd, *(blank[1] for blank in device.blanks[:2]),
                           *(grant[3] for grant in device.granted[:2])]:
            for attempt in (lambda: os.ftruncate(descriptor, 0), lambda: os.ftruncate(descriptor, 1 << 50),
                            lambda: fcntl.fcntl(descriptor, F_ADD_SEALS, 0xF),
                            lambda: os.posix_fallocate(descriptor, 0, 1 << 20),
                            lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                try:
                    attempt()
                    self.counts["resize/allowed"] += 1
                except OSError:
                    self.counts["resize/refused"] += 1

    # Descriptors

    def shelf(self):
        """Every kind of descriptor with special behaviour, including one whose close(2) can block."""
        made = []

        def add(function):
            try:
                made.append(function())
            except OSError as error:
                self.counts[f"shelf/{errno_name(error)}"] += 1
        fifo = f"/tmp/fairlead-hostile-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkfifo(fifo)
        for flags in (O_PATH, os.O_RDONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK):
            add(lambda flags=flags: os.open(fifo, flags))
        with contextlib.suppress(OSError):
            os.unlink(fifo)
        add(lambda: os.eventfd(0))
        add(lambda: os.memfd_create("unsealed"))
        add(lambda: os.memfd_create("sealed-late", os.MFD_ALLOW_SEALING))
        add(lambda: os.memfd_create("huge", os.MFD_HUGETLB))
        lingering = LingeringSocket()
        made.append(lingering.descriptor)
        add(lambda: socket.create_server(("127.0.0.1", 0)).detach())
        add(lambda: os.dup(select.epoll().fileno()))
        add(timerfd)
        add(lambda: os.pidfd_open(os.getpid()))
        add(lambda: os.open("/", os.O_RDONLY | os.O_DIRECTORY))
        add(lambda: os.open("/dev/null", os.O_RDWR))
        return made, lingering

    def send_descriptors(self, rng):
        """Sends descriptors over every socket that leads out of this pod. None may accept one."""
        device, channel = self.channel(rng)
        shelf, lingering = self.shelf()
        try:
            for one in (device.connection, channel.ring_end, channel.watch_end):
                one.setblocking(False)
                for data in (b"x" * 32, b"x" * RECORD.size):
                    try:
                        socket.send_fds(one, [data], shelf[:rng.randint(1, len(shelf))])
                        self.counts["descriptors/SENT"] += 1
                    except OSError as error:
                        self.counts[f"descriptors/{errno_name(error)}"] += 1
        finally:
            lingering.disarm()
            for descriptor in shelf:
                os.close(descriptor)

    def descriptors_in_flight(self, rng):
        """The kernel counts them for the user, not for the pod."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        ours.setblocking(False)
        null = os.open("/dev/null", os.O_RDWR)
        for _ in range(rng.choice((1, 4, 40))):
            try:
                socket.send_fds(ours, [b"x"], [null] * 250)
            except OSError as error:
                self.counts[f"in_flight/{errno_name(error)}"] += 1
                break
        os.close(null)
        self.kept += [ours, theirs]

    def epoll_watches(self, rng):
        _, channel = self.channel(rng)
        for _ in range(rng.choice((1, 20))):
            watcher = select.epoll()
            for end in (channel.ring_end, channel.watch_end):
                watcher.register(end.fileno(), select.EPOLLIN | select.EPOLLET)
            self.kept.append(watcher)

    def pipe_pages(self, rng):
        for _ in range(rng.choice((1, 16))):
            reading, writing = os.pipe()
            self.kept += [reading, writing]
            fcntl.fcntl(writing, F_SETPIPE_SZ, 1 << 20)

    # Over TCP

    def dial(self, rng, port=None, seconds=0.3, priority=0):
        made = socket.socket()
        self.connections.append(made)
        made.settimeout(seconds)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        made.connect((rng.choice(self.addresses), port or self.port))
        return made

    def identity(self, rng):
        """Fabric and peer id to claim: of a device of this process, of a victim, or invented ones."""
        if self.devices and rng.random() < 0.6:
            device = rng.choice(self.devices)
            return device.fabric, device.peer
        victim = rng.choice(self.victims)
        return victim[2:7], rng.choice((victim[8:], rng.randbytes(8)))

    def handshake(self, rng):
        fabric, peer = self.identity(rng)
        gid = b"\xfd\xfa" + fabric + bytes([rng.choice((1, 1, 2, 0))]) + peer
        connection = self.dial(rng)
        message = clc.proposal(peer_id=peer, fabric=fabric, gid=gid,
                               max_connections=rng.choice((255, 255, 0, 16)), max_links=rng.choice((1, 2, 0, 3)))
        if rng.random() < 0.3:
            message = mutated(rng, message)
        connection.sendall(message)
        if rng.random() < 0.5:
            self.counts["answers"] += bool(connection.recv(1024))
        if rng.random() < 0.5:
            reply = clc.answer(rng.choice((clc.CONFIRM, clc.ACCEPT)), gid, peer, queue_pair=number(rng, 24),
                               rkey=number(rng, 32), index=number(rng, 8), token=number(rng, 32),
                               size_code=number(rng, 4), address=number(rng, 64),
                               first_contact=rng.random() < 0.7)
            connection.sendall(mutated(rng, reply) if rng.random() < 0.3 else reply)

    def first_contact(self, rng):
        """A real first contact with the victim until its Accept, and a channel with it."""
        device = self.device(rng)
        gid = b"\xfd\xfa" + device.fabric + b"\x01" + device.peer
        connection = self.dial(rng)
        connection.sendall(clc.proposal(peer_id=device.peer, fabric=device.fabric, gid=gid))
        accept = clc.receive(connection)
        if accept.kind != clc.ACCEPT:
            self.counts["first_contact/declined"] += 1
            return None
        victim_queue_pair = int.from_bytes(accept.data[38:41], "big")
        deadline = time.monotonic() + 0.5
        victim = accept.data[8:16]
        device.met.add((victim, "client", 2))
        while not any(one.peer == victim for one in device.channels):
            if time.monotonic() > deadline:
                break
            device.request(CONNECT, peer=victim)
            device.ring()
            select.select([device.connection], [], [], 0.1)
            device.drain()
        channels = [one for one in device.channels if one.peer == victim]
        if not channels:
            self.counts["first_contact/no_channel"] += 1
            return None
        return device, gid, connection, channels, victim_queue_pair

    def late_confirm(self, rng):
        """Announces the number of the Accept on every channel, under many names, and sends no Confirm."""
        contact = self.first_contact(rng)
        if contact is None:
            return
        device, _, _, _, victim_queue_pair = contact
        for _ in range(3):
            self.connect_victim(rng, device)
        for channel in device.channels:
            for _ in range(rng.choice((1, 8, 200))):
                channel.say(QUEUE_PAIR_READY, domain=number(rng, 32), source=number(rng, 24),
                            destination=victim_queue_pair)
            channel.ring()

    def lying_tail(self, rng):
        """A connected queue pair is destroyed between other control messages, while the tail of the messages is
        wrong."""
        contact = self.first_contact(rng)
        if contact is None:
            return
        device, gid, connection, channels, victim_queue_pair = contact
        channel, own_queue_pair = channels[-1], rng.randrange(2, 1 << 24)
        channel.say(QUEUE_PAIR_READY, domain=1, source=own_queue_pair, destination=victim_queue_pair)
        channel.ring()
        connection.sendall(clc.answer(clc.CONFIRM, gid, device.peer, queue_pair=own_queue_pair, rkey=0x5001,
                                      token=0x77, address=0x100000, size_code=0))
        time.sleep(rng.choice((0, 0.01)))  # it may have connected by then, or not
        first = channel.control_tail
        for _ in range(30):
            channel.say(WITHDRAW, rkey=1)
        channel.say(QUEUE_PAIR_GONE, source=own_queue_pair, destination=victim_queue_pair)
        for _ in range(30):
            channel.say(WITHDRAW, rkey=1)
        head = channel.control_ring(channel.side) + HEAD_OFFSET
        tail = channel.message_ring(channel.side)
        channel.ring()
        deadline = time.monotonic() + 0.1
        while channel.word(head) <= first and time.monotonic() < deadline:
            pass
        channel.word(tail, channel.message_tail + rng.choice((1000, 1024, 1025)))
        while channel.word(head) < channel.control_tail and time.monotonic() < deadline:
            pass
        channel.word(tail, channel.message_tail)

    def deep_link(self, rng):
        """A first contact as far as the victim's own link; then LLC and CDC messages of all kinds. The memory comes
        before them, or later than all."""
        contact = self.first_contact(rng)
        if contact is None:
            return
        device, gid, connection, channels, victim_queue_pair = contact
        channel, victim = channels[-1], channels[-1].peer
        own_queue_pair = rng.randrange(2, 1 << 24)
        if not device.blanks:
            device.drain()
        buffer, descriptor = device.blanks.pop() if device.blanks else (0, -1)

        def grant():
            device.request(GRANT, peer=victim, instance=device.instance, buffer=buffer)
            device.ring()
        late = rng.random() < 0.5
        if descriptor >= 0:
            os.ftruncate(descriptor, 1 << 20)
            device.request(TAKE, instance=device.instance, buffer=buffer)
            if not late:
                grant()
        channel.say(QUEUE_PAIR_READY, domain=1, source=own_queue_pair, destination=victim_queue_pair)
        channel.say(ANNOUNCE, domain=1, rkey=0x5001, address=0x100000, size=1 << 20, instance=device.instance,
                    number=buffer)
        channel.ring()
        connection.sendall(clc.answer(clc.CONFIRM, gid, device.peer, queue_pair=own_queue_pair, rkey=0x5001,
                                      token=0x77, address=0x100000, size_code=rng.choice((0, 1, 5, 15))))
        self.counts["deep_link/confirmed"] += 1
        for _ in range(rng.randint(1, 30)):
            channel.consume()
            payload = bytearray(rng.randbytes(44))
            payload[0] = rng.choice((0xFE, 0xFE, 0x21, 0x22, 0x24, 0x26, 0x27, 0x28, 0x29, 0x01, 0x02, 0x07, 0xEE))
            payload[1] = 44
            channel.send(victim_queue_pair, own_queue_pair, bytes(payload))
            channel.ring()
        if descriptor >= 0:
            if late:
                time.sleep(rng.choice((0, 0.001, 0.005, 0.1)))  # the victim looks for it at growing intervals
                grant()
            os.close(descriptor)

    def in_frames(self, rng):
        """Frames as a client's proxy begins with them, then some that break the rules, or none for long."""
        connection = self.dial(rng, priority=frames.PRIORITY_WINDOWS_WANTED)
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY) != frames.PRIORITY_WINDOWS_ANSWERED:
            self.counts["in_frames/not_announced"] += 1
            return
        for data in framed.drawn(rng):
            connection.sendall(data)
            time.sleep(rng.choice((0, 0.001, 0.02)))
        self.counts["in_frames/sent"] += 1
        if rng.random() < 0.5:
            self.counts["in_frames/answers"] += bool(connection.recv(4096))
        if rng.random() < 0.3:
            connection.shutdown(socket.SHUT_WR)

    def tcp_nonsense(self, rng):
        connection = self.dial(rng)
        connection.sendall(rng.choice((clc.EYECATCHER, b"", clc.EYECATCHER + b"\x01\xff\xff", rng.randbytes(200))))
        if rng.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connections.remove(connection)
            connection.close()

    def slow_http(self, rng):
        for _ in range(rng.choice((1, 12))):
            self.dial(rng, ADMIN_PORT).sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")

    def old_names(self, _):
        """A broker that listened in pods could receive descriptors."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            one.connect("\0fairlead-node")
            self.counts["old_names/CONNECTED"] += 1
        finally:
            one.close()


class LingeringSocket:
    """Its last close waits until sent data is read, or for as long as its creator chooses."""

    def __init__(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.one = socket.create_connection(listener.getsockname())
        self.peer = listener.accept()[0]
        listener.close()
        self.one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30))
        self.one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.one.send(bytes(65536))
        self.descriptor = os.dup(self.one.fileno())

    def disarm(self):
        """This process must not be its own victim."""
        self.one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.one.close()
        self.peer.close()


def timerfd():
    made = ctypes.CDLL(None, use_errno=True).timerfd_create(1, 0)
    if made < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create")
    return made


def errno_name(error):
    if isinstance(error, TimeoutError):
        return "TIMEOUT"
    number_ = getattr(error, "errno", None)
    return os.strerror(number_).replace(" ", "_") if number_ else type(error).__name__


def close(one):
    if isinstance(one, int):
        os.close(one)
    else:
        one.close()


def end_child(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def victim(text):
    gid, address, version = text.split(",")
    return contacts.Victim(ipaddress.IPv6Address(gid).packed, address, int(version))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--victim", required=True, action="append")
    parser.add_argument("--victim-port", type=int, required=True)
    parser.add_argument("seeds", nargs="+", type=int)
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    attacker = Attacker([victim(text) for text in arguments.victim], arguments.victim_port,
                        float(os.environ.get("FAIRLEAD_SLOWNESS", "1")))
    try:
        for seed in arguments.seeds:
            try:
                attacker.run(seed)
            except Exception:  # the seed reproduces it
                print(f"attacker: seed {seed}\n{traceback.format_exc()}", file=sys.stderr)
                return 1
    finally:
        attacker.finish()
    print(json.dumps(dict(sorted(attacker.counts.items()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
