"""Attacks that first behave: a connection or a link group is brought to a state, then misused there. kinds.py has their
names. Counters:

    KIND                  drawn
    KIND/reached          the victim had answered all that comes before the state
    deed/NAME             done in a state that was reached
    deed/NAME/alive       the victim answered TEST_LINK afterwards; .../ended if it did not
    deed/NAME/MESSAGE     what else the victim sent afterwards
    frames/.../END        how the victim ended the connection: reset, end or open
"""
import json
import socket
import struct
import time

import clc
import deeds
import framed
import frames
import link_group
from drawing import mutated

REDIRECT_PORT = 4543  # where connections to any port of the pod arrive
LURE_PORT = 7002
SUBNET = ("10.213.91.0", 24)
PROPOSAL_MAC_AT = 32
FIRST_CONTACT = 0x08
WORDS = b"hostile words"
GROUPS_MAX = 8
# Limits of waits for an honest victim. They end attacks that have failed.
ACCEPT_SECONDS, CHANNEL_SECONDS, REACH_SECONDS = 1.0, 0.5, 1.0
ECHO_SECONDS = 0.05
LISTEN_SECONDS = 0.02
TO_APPLICATION_BYTES = 100
FAILURES = (OSError, ValueError, AssertionError)


class Victim:
    """`version`: which one it speaks as a client, and accepts at least as a server."""

    def __init__(self, gid, address, version):
        self.gid, self.address, self.version = gid, address, version
        self.peer = gid[8:]


class Contacts:
    """`attacker` provides devices, counters and kept sockets; `slowness` multiplies all waits."""

    def __init__(self, attacker, victims, port, slowness):
        self.attacker, self.victims, self.port = attacker, victims, port
        self.slowness = slowness
        self.counts = attacker.counts
        self.groups = []

    def run(self, kind, rng):
        family, role, *words = kind.split("/")
        self.counts[kind] += 1
        try:
            getattr(self, f"attack_{family}")(kind, rng, role, *words)
        except FAILURES as error:
            self.counts[f"missed/{kind}/{type(error).__name__}: {str(error)[:60]}"] += 1

    def finish(self):
        while self.groups:
            self.forget(self.groups.pop(0))

    def forget(self, group):
        group.close()
        if group.socket in self.attacker.connections:
            self.attacker.connections.remove(group.socket)
            group.socket.close()
        if not group.channel.memory.closed:
            group.vanish()

    # Connections

    def choose(self, rng, role, version):
        """A victim that speaks this version: as a server all speak version 1, as a client only one does."""
        fits = [victim for victim in self.victims
                if victim.version == version or (role == "client" and version == 1)]
        return rng.choice(fits)

    def dial(self, victim, in_frames=False):
        made = socket.socket()
        self.attacker.connections.append(made)
        made.settimeout(ACCEPT_SECONDS * self.slowness)
        if in_frames:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, frames.PRIORITY_WINDOWS_WANTED)
        made.connect((victim.address, self.port))
        if in_frames:
            priority = made.getsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY)
            assert priority == frames.PRIORITY_WINDOWS_ANSWERED, f"frames were not announced: {priority:#x}"
        return made

    def lure(self, victim, in_frames, count, ends=False):
        """A connection of the victim's application to this pod. Its listener announces frames or not."""
        with socket.socket() as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as call, \
                socket.create_server(("0.0.0.0", LURE_PORT)):  # only a port with a listener is redirected
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if in_frames:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, frames.PRIORITY_WANTED)
            listener.bind(("0.0.0.0", REDIRECT_PORT))
            listener.listen(8)
            # Accepted sockets would inherit it.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 0)
            listener.settimeout(ACCEPT_SECONDS * self.slowness)
            call.sendto(json.dumps({"port": LURE_PORT, "bytes": count, "end": ends}).encode(),
                        (victim.address, self.port))
            made = listener.accept()[0]
        self.attacker.connections.append(made)
        made.settimeout(ACCEPT_SECONDS * self.slowness)
        return made

    def ending(self, sock):
        """How the victim ended the connection, as far as that shows soon."""
        sock.settimeout(LISTEN_SECONDS * self.slowness)
        try:
            while sock.recv(65536):
                pass
            return "end"
        except TimeoutError:
            return "open"
        except OSError:
            return "reset"

    def note_end(self, kind, sock, rng):
        self.counts[f"{kind}/{self.ending(sock)}"] += 1
        if rng.random() < 0.7:  # else it takes part of what the victim grants to this address
            self.attacker.connections.remove(sock)
            sock.close()

    # Frames

    def attack_frames(self, kind, rng, role, name):
        if role == "client":
            sock, attack = self.dial(rng.choice(self.victims), in_frames=True), framed.CLIENT[name]
        else:
            count = framed.BYTES_TO_HAND_OVER if name in framed.AFTER_HAND_OVER else TO_APPLICATION_BYTES
            ends = name not in framed.AFTER_HAND_OVER and rng.random() < 0.3
            sock, attack = self.lure(rng.choice(self.victims), True, count, ends), framed.SERVER[name]
        try:
            attack(sock, rng)
        except framed.VictimReset:
            self.counts[f"{kind}/reset"] += 1
        else:
            self.note_end(kind, sock, rng)
        self.counts[f"{kind}/reached"] += 1

    # Handshakes

    def attack_handshake(self, kind, rng, role_and_version, where):
        role, version = role_and_version.split("_v")
        version = int(version)
        victim = self.choose(rng, role, version)
        peer, gid, fabric = self.identity(rng, victim)
        sock = self.dial(victim) if role == "client" else self.lure(victim, False, TO_APPLICATION_BYTES)
        if role == "server":
            clc.receive(sock, clc.PROPOSAL)
        elif rng.random() < 0.5:
            sock.sendall(self.proposal(version, peer, fabric, gid))
            clc.receive(sock)  # a victim declines an identity that has no device
        first = role == "client" and rng.random() < 0.5
        if where == "other_version":
            version = 3 - version
        if first:
            message = self.proposal(version, peer, fabric, gid)
        else:
            make = clc.answer_v1 if version == 1 else clc.answer
            message = make(clc.CONFIRM if role == "client" else clc.ACCEPT, gid, peer_id=peer,
                           first_contact=rng.random() < 0.7)
        if where == "mutated":
            message = mutated(rng, message)
        elif where == "cut":
            message = message[:rng.randrange(len(message))]
        sock.sendall(message)
        self.counts[f"{kind}/reached"] += 1
        if where == "cut" and rng.random() < 0.5:
            sock.shutdown(socket.SHUT_WR)
        self.note_end(kind, sock, rng)

    def identity(self, rng, victim):
        device = self.attacker.devices[-1] if self.attacker.devices else None
        if device is not None and rng.random() < 0.7:
            peer = device.peer
        else:
            peer = rng.choice((victim.peer, rng.choice(self.victims).peer, rng.randbytes(8)))
        return peer, victim.gid[:7] + b"\x01" + peer, victim.gid[2:7]

    @staticmethod
    def proposal(version, peer, fabric, gid):
        if version == 1:
            return clc.proposal_v1(peer, fabric, gid, area=clc.subnet(*SUBNET))
        return clc.proposal(peer_id=peer, fabric=fabric, gid=gid, max_links=link_group.LINKS_MAX)

    # Link groups

    def attack_links(self, kind, rng, role_and_version, state):
        role, version = role_and_version.split("_v")
        version = int(version)
        victim = self.choose(rng, role, version)
        device = self.device_for(rng, (victim.peer, role, version))
        self.end_earlier(device, victim, role, version)
        group = link_group.LinkGroup(device, self.clean_channel(device, victim), b"\xfd\xfa" + device.fabric + b"\x01"
                                     + device.peer, role, version)
        self.keep(group)
        assert group.ready_memory(), "the broker gave no buffer"
        sock = group.socket = self.first_contact(group, victim, rng, state)
        if group.state != state and not group.reach(state, REACH_SECONDS * self.slowness):
            self.counts[f"missed/{kind}/in_{group.state}"] += 1
            if group.heard:
                self.counts[f"missed/{kind}/heard_{group.heard[-1]}"] += 1
            return
        self.counts[f"{kind}/reached"] += 1
        self.misuse(group, rng, sock)

    def device_for(self, rng, meeting):
        """One that the victim has not met in this role and version, if the broker grants another. Else the earlier groups
        with it end first: the victim would wait for an abandoned first contact, or use the group again."""
        for device in list(self.attacker.devices):
            if device.connection is None or not device.drain():
                self.attacker.devices.remove(device)
                device.close()
        if not self.attacker.devices:
            self.attacker.open_device(rng)
        fresh = [device for device in self.attacker.devices if meeting not in device.met]
        device = rng.choice(fresh or self.attacker.devices)
        device.met.add(meeting)
        return device

    def end_earlier(self, device, victim, role, version):
        for group in [one for one in self.groups if one.device is device and one.channel.peer == victim.peer
                      and (one.role, one.version) == (role, version)]:
            self.groups.remove(group)
            self.forget(group)

    def clean_channel(self, device, victim):
        """A channel that no attack on the rings has touched; the broker makes another if there is none."""
        for spoiled in [one for one in device.channels if one.peer == victim.peer and one.spoiled]:
            device.channels.remove(spoiled)
            spoiled.close()

        def clean():
            return [one for one in device.channels if one.peer == victim.peer]
        deadline = time.monotonic() + CHANNEL_SECONDS * self.slowness
        if not clean():
            device.connect(victim.peer)
        while not clean():
            assert time.monotonic() < deadline, "the broker gave no channel"
            device.wait_record(0.1)
        return clean()[-1]

    def keep(self, group):
        self.groups.append(group)
        while len(self.groups) > GROUPS_MAX:
            self.forget(self.groups.pop(0))

    def first_contact(self, group, victim, rng, state):
        """CLC until its last message; `accepted` comes before that. It may begin in frames."""
        in_frames = rng.random() < 0.3
        if group.role == "client":
            deadline = time.monotonic() + REACH_SECONDS * self.slowness
            while True:
                sock = self.dial(victim, in_frames)
                if in_frames:
                    framed.agree(sock, rng)
                sock.sendall(group.with_mac(self.proposal(group.version, group.device.peer, group.device.fabric,
                                                          group.gid), PROPOSAL_MAC_AT))
                accept = self.receive_answer(sock, clc.ACCEPT)
                if accept.bits & FIRST_CONTACT or time.monotonic() > deadline:
                    break
                # The victim has not yet noticed the end of an earlier group.
                self.counts["links/used_again"] += 1
                sock.close()
            group.take_clc(accept)
            group.state = "accepted"
            if state != "accepted":
                group.connect_first()
                sock.sendall(group.clc_answer(clc.CONFIRM))
            return sock
        sock = self.lure(victim, in_frames, framed.BYTES_TO_HAND_OVER if in_frames else TO_APPLICATION_BYTES)
        if in_frames:
            framed.await_hand_over(sock)
            sock.sendall(frames.hand_over(0))
        clc.receive(sock, clc.PROPOSAL)
        sock.sendall(group.clc_answer(clc.ACCEPT))
        group.take_clc(self.receive_answer(sock, clc.CONFIRM))
        group.state = "accepted"
        if state != "accepted":
            group.connect_first()
        return sock

    def receive_answer(self, sock, kind):
        message = clc.receive(sock)
        if message.kind == clc.DECLINE:
            self.counts[f"declined/{message.reason:#010x}"] += 1
        assert message.kind == kind, message.data.hex()
        return message

    def misuse(self, group, rng, sock):
        deed = rng.choice(deeds.ALL_DEEDS)
        name = f"deed/{deed.__name__}"
        self.counts[name] += 1
        before = len(group.heard)
        deed(group, rng)
        if deed is not deeds.silence:
            group.send(group.header(link_group.TEST_LINK))
        deadline = time.monotonic() + ECHO_SECONDS * self.slowness
        while "TEST_LINK_answer" not in group.heard[before:] and time.monotonic() < deadline:
            if group.receive(LISTEN_SECONDS) is None and deed is deeds.silence:
                break
        for message in set(group.heard[before:]):
            self.counts[f"{name}/{message}"] += 1
        if deed is not deeds.silence:
            self.counts[f"{name}/{'alive' if 'TEST_LINK_answer' in group.heard[before:] else 'ended'}"] += 1
        after = rng.random()
        if after < 0.3:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.attacker.connections.remove(sock)
            sock.close()
        elif after < 0.5:
            sock.sendall(WORDS)  # on a connection that has left TCP
        elif after < 0.6:
            sock.shutdown(socket.SHUT_WR)
        if rng.random() < 0.5:
            group.vanish()
