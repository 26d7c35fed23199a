"""A hostile peer that speaks version 1 of SMC-R: as a client of an inbound port, as a server that the application
connects to, and between two honest proxies, whose messages it changes. Every row of a table is one attack.

After each the hostile connection is TCP with a reason, or was reset, and honest connections beside it have worked. Each
table runs twice: in the second round the proxy has no more descriptors than in the first."""
import collections
import contextlib
import os
import socket
import struct
import threading

import clc
import peers
from harness import ProxyTest, listener, main, merge, short_milliseconds, wait_until

ONE = {"smc": {"version": 1}}
BOTH = {}
ASSUMED = {"smc": {"assume": ["127.0.0.0/8"]}}
# Far below the handshake timeout of 60 s, for which a hostile peer may hold its own connection.
HONEST_SECONDS = 1
V2_EXTENSION = clc.answer(clc.ACCEPT, bytes(16))[64:-4]


def changed(message, at, new):
    return message[:at] + bytes(new) + message[at + len(new):]


def lengthened(message, more):
    """With bytes before the trailer, and a length that counts them."""
    return changed(message[:-4] + more + message[-4:], 5, struct.pack(">H", len(message) + len(more)))


def padded_to(message, length):
    """With another length, and as many bytes as that says."""
    whole = message[:min(length, len(message))].ljust(length, b"\0")
    return changed(whole[:-4] + clc.EYECATCHER if length > 12 else message, 5, struct.pack(">H", length))


def malformed_answers(make, other_types):
    """Rows of what `make`, an Accept or a Confirm, must not be."""
    good = make()
    return {**{f"length {length}": padded_to(good, length) for length in (0, 7, 47, 48, 67, 69, 108, 653, 0xFFFF)},
            **{f"MTU code {code}": make(mtu=code) for code in (0, 6, 15)},
            **{f"version {version}": changed(good, 7, [version << 4 | 8]) for version in (0, 2, 3, 15)},
            **{f"path {path}": changed(good, 7, [0x18 | path]) for path in (1, 2, 3)},
            **{f"type {kind}": changed(good, 4, [kind]) for kind in other_types},
            "no element": make(index=0), "no token": make(token=0),
            "trailer": make(end=bytes(4)), "eyecatcher": make(begin=b"\xe2\xd4\xc3\xc5"),
            "a v2 extension": lengthened(good, V2_EXTENSION)}


def descriptors(proxy):
    return len(os.listdir(f"/proc/{proxy.pid}/fd"))


class Attacked(ProxyTest):
    """An honest pair of version 1, with a connection that stays during each round."""
    # So that a round leaves no group.
    options = {"smc": {"group_idle_timeout": "0s"}}
    entry = held = None

    def setUp(self):
        super().setUp()
        self.fallbacks = {}
        self.refused = collections.Counter()
        self.application = peers.serve(self, peers.echo)

    @contextlib.contextmanager
    def hold(self):
        """The connection that no attack may end."""
        with peers.connect(self.entry) as self.held:
            self.honest_connections_work()
            yield
            self.honest_connections_work()

    def honest_connections_work(self):
        self.assert_honest(self.held)
        with peers.connect(self.entry, timeout=HONEST_SECONDS) as sock:
            self.assert_honest(sock)

    def assert_honest(self, sock):
        peers.assert_echo(sock, b"honest")

    def expect_fallback(self, proxy, reason, side="local"):
        self.fallbacks.setdefault(proxy, collections.Counter())[reason, side] += 1

    def expect_one_of(self, proxy, *choices):
        """The proxy and its peer both notice the fault. Which of them is first decides the reason that is counted."""
        so_far = self.fallbacks.get(proxy, {})
        counted = []

        def has_counted():
            metrics = proxy.metrics().fallbacks()
            counted[:] = [choice for choice in choices if metrics.get(choice, 0) > so_far.get(choice, 0)]
            return counted
        wait_until(has_counted, f"{proxy.name} to count one of {choices}")
        self.expect_fallback(proxy, *counted[0])

    def counted(self, proxy):
        metrics = proxy.metrics()
        return metrics.fallbacks(), metrics.value("fairlead_connections_refused_total", reason="handshake")

    def check_counts(self):
        for proxy in self.proxies:
            expected = (dict(self.fallbacks.get(proxy, {})), self.refused[proxy])
            wait_until(lambda: self.counted(proxy) == expected,  # pylint: disable=cell-var-from-loop
                       f"{proxy.name} to count {expected}; it has {self.counted(proxy)}")
            for reason, _ in expected[0]:
                self.assertIn(f"reason={reason}", proxy.log())

    def twice(self, rows, run):
        """`run(row)` for each row, in two rounds."""
        before = None
        for number in range(2):
            with self.hold():
                for name, row in rows.items():
                    with self.subTest(name, round=number):
                        run(row)
                self.check_counts()
            self.wait_idle()
            for proxy in self.proxies:
                wait_until(lambda: not proxy.get_json("/linkgroups")["link_groups"],  # pylint: disable=cell-var-from-loop
                           f"the groups of {proxy.name} to end")
            if before:
                wait_until(lambda: all(descriptors(proxy) <= before[proxy] for proxy in self.proxies),
                           f"no more descriptors than {list(before.values())}, "
                           f"there are {[descriptors(proxy) for proxy in self.proxies]}")
            before = {proxy: descriptors(proxy) for proxy in self.proxies}


class ClientTest(Attacked):
    """Raw clients of the inbound proxy. Its groups with the honest client are of version 1."""
    server = BOTH
    handshake_timeout = "60s"

    def setUp(self):
        super().setUp()
        smc = {"smc": {"handshake_timeout": self.handshake_timeout}}
        self.start_pair(self.application.address, client=ONE, server=merge(merge(self.server, ASSUMED), smc))
        self.target = self.inbound.address("in")
        self.peer = clc.Gid(self.outbound)

    def proposal(self, **changes):
        """Of a peer with the id of the honest one, and a MAC of its own: its groups are not those of the other."""
        return clc.proposal_v1(**{"peer_id": self.peer.peer_id, "fabric": self.peer.fabric, "gid": self.peer.bytes,
                                  **changes})

    def impostor_proposal(self):
        """Also with the MAC: the Accept names a group of the honest peer."""
        return self.proposal(mac=b"\x02" + self.peer.peer_id[4:] + b"\x01")

    def confirm(self, **changes):
        return clc.answer_v1(clc.CONFIRM, **{"gid": self.peer.bytes, **changes})

    def attack(self, rows, act):
        """`act(sock, row)` on a new connection for each row, in two rounds."""
        def run(row):
            with peers.connect(self.target) as sock:
                act(sock, row)
        self.twice(rows, run)

    def assert_tcp(self, sock):
        peers.assert_echo(sock, b"and so it is TCP")

    def assert_refused(self, sock):
        self.assertTrue(peers.ends_in_reset(sock))
        self.refused[self.inbound] += 1

    def assert_declined(self, sock, code, reason, version=1):
        decline = clc.receive(sock, clc.DECLINE)
        self.assertEqual((decline.reason, decline.bits >> 4, len(decline.data)), (code, version, clc.DECLINE_BYTES[version]))
        self.assert_tcp(sock)
        self.expect_fallback(self.inbound, reason)

    def accepted(self, sock, proposal=None, bits=0x18):
        sock.sendall(proposal or self.proposal())
        accept = clc.receive(sock, clc.ACCEPT)
        self.assertEqual((accept.bits, len(accept.data), accept.gid), (bits, 68, clc.Gid(self.inbound).bytes))
        return accept


class HostileClient(ClientTest):
    def test_proposals_that_are_refused(self):
        good = self.proposal()
        rows = {f"length {length}": padded_to(good, length) for length in (0, 7, 8, 51, 52, 91, 93, 652, 653, 0xFFFF)}
        rows.update({f"IP area at 40 + {offset}": changed(good, 38, struct.pack(">H", offset))
                     for offset in (0, 1, 39, 41, 172, 0xFFFF)})
        rows.update({f"{count} prefixes": changed(good, 87, [count]) for count in (1, 8, 9, 255)})
        rows.update({f"version {version}": changed(good, 7, [version << 4]) for version in (0, 2, 3, 15)})
        rows.update({f"type {kind}": changed(good, 4, [kind]) for kind in (0, 5, 255)})
        rows.update({
            "nine prefixes, all there": lengthened(changed(good, 87, [9]), bytes(9 * 17)),
            "one prefix more than it says": lengthened(changed(good, 87, [1]), bytes(2 * 17)),
            "no path": changed(good, 7, [0x12]),
            "trailer": changed(good, 88, bytes(4)),
            "a v2 extension": lengthened(good, clc.proposal()[80:-4]),
            "an Accept": clc.answer_v1(clc.ACCEPT, self.peer.bytes),
            "a Confirm": self.confirm(),
            "a Decline with another length": lengthened(clc.decline_v1(clc.NO_DEVICE), bytes(16)),
        })

        def act(sock, message):
            sock.sendall(message)
            self.honest_connections_work()
            self.assert_refused(sock)
        self.attack(rows, act)

    def test_proposals_that_are_declined(self):
        good = self.proposal()
        short = changed(changed(good[:40] + good[80:], 38, [0, 0]), 5, struct.pack(">H", 52))
        rows = {
            "SMC-D alone": (changed(good, 7, [0x11]), clc.NO_SMC, "peer_no_smc"),
            "another prefix": (self.proposal(area=clc.subnet("10.0.0.0", 8)), clc.PREFIX_MISMATCH, "prefix_mismatch"),
            **{f"a prefix of {bits} bits": (self.proposal(area=clc.subnet("127.0.0.0", bits)), clc.PREFIX_MISMATCH,
                                            "prefix_mismatch") for bits in (9, 200, 255)},
            "IPv6 prefixes alone": (lengthened(changed(good, 80, bytes(7) + b"\x08"), bytes(8 * 17)),
                                    clc.PREFIX_MISMATCH, "prefix_mismatch"),
            "no fabric": (short, clc.NO_RDMA_DEVICE, "no_rdma_device"),
            "another fabric": (self.proposal(fabric=bytes(5)), clc.NO_RDMA_DEVICE, "no_rdma_device"),
            "no peer id": (self.proposal(peer_id=bytes(8)), clc.NO_RDMA_DEVICE, "no_rdma_device"),
        }

        def act(sock, row):
            sock.sendall(row[0])
            self.honest_connections_work()
            self.assert_declined(sock, *row[1:])
        self.attack(rows, act)

    def test_proposals_that_are_odd_but_right(self):
        good = self.proposal()
        rows = {"eyecatchers of SMC-D": changed(changed(good, 0, b"\xe2\xd4\xc3\xc4"), 88, b"\xe2\xd4\xc3\xc4"),
                "both paths": changed(good, 7, [0x13]), "a path of version 2": changed(good, 7, [0x1C]),
                "reserved bytes": changed(changed(good, 60, b"\xff" * 20), 85, b"\xff\xff")}

        def act(sock, message):
            self.accepted(sock, message)
            self.honest_connections_work()
            sock.sendall(clc.decline_v1(clc.NO_ROUTE))
            self.assert_tcp(sock)
            self.expect_fallback(self.inbound, "no_route", "peer")
        self.attack(rows, act)

    def test_confirms_that_are_refused(self):
        good = self.confirm()
        rows = malformed_answers(self.confirm, (0, 1, 2, 5, 255))
        rows.update({
            "length 196": padded_to(good, 196),
            "the Proposal again": self.proposal(),
            "a Decline of version 2 with the length of 1": changed(clc.decline_v1(clc.NO_DEVICE), 7, [0x20]),
        })

        def act(sock, message):
            self.accepted(sock)
            self.honest_connections_work()
            sock.sendall(message)
            self.assert_refused(sock)
        self.attack(rows, act)

    def test_confirms_that_are_declined(self):
        """No queue pair of the honest peer answers what these describe."""
        lost = (clc.NO_ACTIVE_LINK, "no_active_link")
        rows = {f"{name} {value:#x}": (self.confirm(**{name: value}), *lost) for name, value in (
            ("queue_pair", 0), ("queue_pair", 0xFFFFFF), ("rkey", 0), ("rkey", 0xFFFFFFFF), ("token", 0xFFFFFFFF),
            ("mtu", 1), ("index", 255), ("size_code", 15), ("address", 2**64 - 1), ("psn", 0xFFFFFF))}
        rows.update({
            "a number of 32 bits for the first packet": (changed(self.confirm(), 60, b"\xff" * 4), *lost),
            "another peer id": (self.confirm(peer_id=bytes(8)), *lost),
            "another GID": (self.confirm(gid=bytes(16)), *lost),
            "all at its end": (self.confirm(index=255, size_code=15, address=2**64 - 1, rkey=2**32 - 1), *lost),
            "no first contact": (self.confirm(first_contact=False), clc.SYNC_ERROR, "sync_error"),
            "version 2": (clc.answer(clc.CONFIRM, self.peer.bytes), clc.VERSION_MISMATCH, "version_mismatch", 2),
            "version 15": (clc.answer(clc.CONFIRM, self.peer.bytes, bits=0xF8), clc.VERSION_MISMATCH,
                           "version_mismatch", 2),
            "version 2, no first contact": (clc.answer(clc.CONFIRM, self.peer.bytes, first_contact=False),
                                            clc.VERSION_MISMATCH, "version_mismatch", 2),
        })

        def act(sock, row):
            self.accepted(sock)
            self.honest_connections_work()
            sock.sendall(row[0])
            self.assert_declined(sock, *row[1:])
        self.attack(rows, act)

    def test_declines_in_the_middle(self):
        other = clc.decline(clc.NO_ROUTE)
        rows = {"of version 1": clc.decline_v1(clc.NO_ROUTE), "of version 2": other,
                "of another path": changed(clc.decline_v1(clc.NO_ROUTE), 7, [0x13]),
                "of version 15": changed(other, 7, [0xF0]),
                "without trailer": changed(clc.decline_v1(clc.NO_ROUTE), 24, bytes(4)),
                "out of sync": clc.decline_v1(clc.NO_ROUTE, 0x18)}
        rows = {f"{when}, {name}": (when, message) for name, message in rows.items()
                for when in ("first", "behind the Proposal", "after the Accept")}

        def act(sock, row):
            when, message = row
            if when == "after the Accept":
                self.accepted(sock)
            sock.sendall(self.proposal() + message if when == "behind the Proposal" else message)
            if when == "behind the Proposal":
                clc.receive(sock, clc.ACCEPT)
            self.honest_connections_work()
            self.assert_tcp(sock)
            self.expect_fallback(self.inbound, "no_route", "peer")
        self.attack(rows, act)

    def test_messages_that_are_doubled(self):
        two = clc.proposal(self.peer.peer_id, self.peer.fabric)
        rows = {"Proposal": (self.proposal() * 2, b""), "Proposal of version 2 behind": (self.proposal() + two, b""),
                "Confirm": (self.proposal(), self.confirm() * 2)}

        def act(sock, row):
            sock.sendall(row[0])
            if row[1]:
                clc.receive(sock, clc.ACCEPT)
                sock.sendall(row[1])
            self.honest_connections_work()
            self.assert_refused(sock)
        self.attack(rows, act)

    def test_messages_that_are_cut_at_each_byte(self):
        rows = {f"Proposal, {count} bytes": (False, self.proposal()[:count]) for count in range(1, 92)}
        rows.update({f"Confirm, {count} bytes": (True, self.confirm()[:count]) for count in range(68)})

        def run(row):
            begin, message = row
            for leave in (lambda sock: sock.shutdown(socket.SHUT_WR), peers.reset):
                with peers.connect(self.target) as sock:
                    if begin:
                        self.accepted(sock)
                    sock.sendall(message)
                    leave(sock)
                    if sock.fileno() >= 0:
                        peers.ends_in_reset(sock)
            if len(message) % 16 == 0:
                self.honest_connections_work()
        self.twice(rows, run)

    def test_second_contacts_of_an_impostor(self):
        """A client with the address, id and MAC of the honest peer learns of its link, and cannot use it."""
        answers = {"an unknown key": self.confirm(first_contact=False),
                   "another queue pair": self.confirm(first_contact=False, queue_pair=1, rkey=2),
                   "the last element": self.confirm(first_contact=False, index=255, size_code=15, address=2**64 - 1)}

        def act(sock, message):
            self.accepted(sock, self.impostor_proposal(), bits=0x10)
            sock.sendall(message)
            self.honest_connections_work()
            self.assertTrue(peers.ends_in_reset(sock))
        self.attack(answers, act)

    def test_second_contacts_of_another_version(self):
        """A group is used in its own version only."""
        rows = {"first contact again": (self.confirm(), clc.SYNC_ERROR, "sync_error"),
                "version 2": (clc.answer(clc.CONFIRM, self.peer.bytes, first_contact=False), clc.VERSION_MISMATCH,
                              "version_mismatch", 2)}

        def act(sock, row):
            self.accepted(sock, self.impostor_proposal(), bits=0x10)
            sock.sendall(row[0])
            self.honest_connections_work()
            self.assert_declined(sock, *row[1:])
        self.attack(rows, act)

    def test_a_peer_that_changes_to_version_2(self):
        """It gets a group of version 2, beside the one that it has."""
        def act(sock, first_contact):
            sock.sendall(clc.proposal(self.peer.peer_id, self.peer.fabric, gid=self.peer.bytes))
            self.assertEqual(clc.receive(sock, clc.ACCEPT).bits, 0x28)
            sock.sendall(clc.answer_v1(clc.CONFIRM, self.peer.bytes, first_contact=first_contact))
            self.honest_connections_work()
            self.assert_declined(sock, clc.VERSION_MISMATCH, "version_mismatch")
        self.attack({"Confirm of a first contact": True, "Confirm of a second": False}, act)

    def test_an_impostor_does_not_end_the_group_of_the_peer_whose_id_it_claims(self):
        """It says that it does not know the group. The peer itself still answers."""
        def act(sock, _):
            self.accepted(sock, self.impostor_proposal(), bits=0x10)
            sock.sendall(clc.decline_v1(clc.SYNC_ERROR, 0x18))
            self.assert_tcp(sock)
            self.expect_fallback(self.inbound, "sync_error", "peer")
            self.honest_connections_work()
        self.attack({"out of sync": None}, act)


class HostileClientOfVersion1(HostileClient):
    """Of a proxy that speaks version 1 alone."""
    server = ONE

    def test_a_peer_that_changes_to_version_2(self):
        def act(sock, _):
            sock.sendall(clc.proposal(self.peer.peer_id, self.peer.fabric, gid=self.peer.bytes))
            self.honest_connections_work()
            self.assert_declined(sock, clc.NO_SMC, "peer_no_smc", version=2)
        self.attack({"version 2": None}, act)


class SilentClient(ClientTest):
    handshake_timeout = f"{5 * short_milliseconds()}ms"

    def test_silence_after_each_byte(self):
        """Also after whole messages. All are silent at the same time."""
        def run(silences):
            with contextlib.ExitStack() as stack:
                waiting = []
                for number, (begin, message) in enumerate(silences):
                    sock = stack.enter_context(peers.connect(self.target))
                    if begin:  # none waits for the first contact of another
                        self.accepted(sock, self.proposal(mac=bytes([2, 0, 0, 0, 1, number])))
                    sock.sendall(message)
                    waiting.append(sock)
                self.honest_connections_work()
                for sock in waiting:
                    self.assert_refused(sock)
        self.twice({"in the Proposal": [(False, self.proposal()[:count]) for count in range(1, 92)],
                    "in the Confirm": [(True, self.confirm()[:count]) for count in range(68)]}, run)


class ServerTest(Attacked):
    """Raw servers of the outbound proxy, which also has honest connections."""
    client = ONE
    smc = {}

    def setUp(self):
        super().setUp()
        self.inbound = self.start("in", [listener("in", "inbound", self.application.address)])
        self.hostile = peers.serve(self, self.serve, host="127.0.0.9")
        self.outbound = self.start("out", [
            listener("good", "outbound", self.inbound.address("in")),
            listener("bad", "outbound", self.hostile.address)],
            merge(self.client, {"smc": {"assume": ["127.0.0.9/32"], **self.smc}}))
        self.borrowed = clc.Gid(self.inbound).bytes
        self.say = None
        self.entry = self.outbound.address("good")

    def serve(self, sock):
        """A server that the proxy dials again serves plain TCP."""
        say, self.say = self.say, None
        if say:
            say(sock)
        peers.echo(sock)

    def accept(self, **changes):
        return clc.answer_v1(clc.ACCEPT, **{"gid": self.borrowed, **changes})

    def talk(self):
        with peers.connect(self.outbound.address("bad")) as sock:
            self.honest_connections_work()
            peers.assert_echo(sock, b"the application's words")

    def answer(self, message, then=None):
        def say(sock):
            clc.receive(sock, clc.PROPOSAL)
            sock.sendall(message)
            if then:
                then(sock)
        self.say = say
        self.talk()


class HostileServer(ServerTest):
    def test_proposal_is_what_the_documents_say(self):
        def say(sock):
            own = clc.Gid(self.outbound)
            proposal = clc.receive(sock, clc.PROPOSAL).data
            self.got = (proposal, clc.proposal_v1(own.peer_id, own.fabric, own.bytes, mac=proposal[32:38]))
            sock.sendall(clc.decline_v1(clc.NO_DEVICE))
        self.say = say
        with self.hold():
            self.talk()
        self.assertEqual(*self.got)

    def test_accepts_that_are_malformed(self):
        good = self.accept()
        rows = malformed_answers(self.accept, (0, 1, 3, 5, 255))
        rows.update({
            "length 160": padded_to(good, 160),
            "a Proposal": clc.proposal_v1(bytes(8), bytes(5), self.borrowed),
            "a Confirm": clc.answer_v1(clc.CONFIRM, self.borrowed),
            "a Decline with another length": lengthened(clc.decline_v1(clc.NO_DEVICE), bytes(1)),
        })

        def run(message):
            self.answer(message, peers.receive_all)
            self.expect_fallback(self.outbound, "malformed_clc")
        self.twice(rows, run)

    def expect_decline(self, sock):
        message = clc.receive(sock)
        while message.kind == clc.CONFIRM:
            message = clc.receive(sock)
        self.got = (message.kind, message.reason, message.bits)
        self.assertEqual(len(message.data), clc.DECLINE_BYTES[message.bits >> 4])

    def run_declined(self, rows):
        def run(row):
            message, code, reason, *bits = row
            self.answer(message() if callable(message) else message, self.expect_decline)
            self.assertEqual(self.got, (clc.DECLINE, code, bits[0] if bits else 0x10))
            self.expect_fallback(self.outbound, reason)
        self.twice(rows, run)

    def test_accepts_that_are_declined(self):
        lost = (clc.NO_ACTIVE_LINK, "no_active_link")
        rows = {f"{name} {value:#x}": (self.accept(**{name: value}), *lost) for name, value in (
            ("queue_pair", 0), ("queue_pair", 0xFFFFFF), ("rkey", 0), ("rkey", 0xFFFFFFFF), ("token", 0xFFFFFFFF),
            ("mtu", 1), ("index", 255), ("address", 2**64 - 1), ("psn", 0xFFFFFF))}
        no_route = (clc.NO_ROUTE, "no_route")
        sync = (clc.SYNC_ERROR, "sync_error", 0x18)
        rows.update({
            "a number of 32 bits for the first packet": (changed(self.accept(), 60, b"\xff" * 4), *lost),
            "a GID of no peer": (self.accept(gid=self.borrowed[:8] + bytes(8), peer_id=bytes(8)), *no_route),
            "a GID of another network": (self.accept(gid=bytes(10) + b"\xff\xff\n\0\0\1"), *no_route),
            "a group that never was": (self.accept(first_contact=False, queue_pair=1), *sync),
            "a group of another peer": (self.accept(first_contact=False, peer_id=bytes(8)), *sync),
            "version 2": (clc.answer(clc.ACCEPT, self.borrowed), clc.MODE_MISMATCH, "mode_mismatch", 0x20),
            "version 15": (clc.answer(clc.ACCEPT, self.borrowed, bits=0xF8), clc.MODE_MISMATCH, "mode_mismatch", 0x20),
            "version 2, no first contact": (clc.answer(clc.ACCEPT, self.borrowed, first_contact=False),
                                            clc.MODE_MISMATCH, "mode_mismatch", 0x20),
        })
        self.run_declined(rows)

    def test_a_larger_element_than_memory_allows(self):
        self.run_declined({"size code 15": (self.accept(size_code=15), clc.MEMORY, "memory")})

    def honest_accept(self, version=1, mac=None, **changes):
        """Names the link of the honest connection that is held."""
        (group,) = [group for group in self.outbound.get_json("/linkgroups")["link_groups"]
                    if group["connections"]]
        named = {"queue_pair": group["links"][0]["peer_qp"], "first_contact": False, **changes}
        if version == 2:
            return clc.answer(clc.ACCEPT, self.borrowed, **named)
        return changed(self.accept(**named), 32, mac or b"\x02" + self.borrowed[12:] + b"\x01")

    def test_an_accept_names_the_link_of_an_honest_server(self):
        """Its number is no secret. With another MAC it is no link of that peer; with its MAC the key is not known."""
        self.run_declined({
            "another MAC": (lambda: self.honest_accept(mac=clc.MAC), clc.SYNC_ERROR, "sync_error", 0x18),
            "an unknown key": (self.honest_accept, clc.MEMORY_REGISTRATION, "memory_registration"),
            "a number that the group does not have": (lambda: self.honest_accept(queue_pair=1), clc.LINK_NOT_FOUND,
                                                      "link_not_found"),
            "version 2": (lambda: self.honest_accept(2), clc.MODE_MISMATCH, "mode_mismatch", 0x20)})

    def test_declines(self):
        rows = {"of version 1": clc.decline_v1(clc.NO_ROUTE), "of version 2": clc.decline(clc.NO_ROUTE),
                "of version 15": changed(clc.decline(clc.NO_ROUTE), 7, [0xF0]),
                "out of sync": clc.decline_v1(clc.NO_ROUTE, 0x18)}

        def run(message):
            self.answer(message)
            self.expect_fallback(self.outbound, "no_route", "peer")
        self.twice(rows, run)

    def test_messages_that_are_cut_at_each_byte(self):
        """The application's connection ends at once."""
        def run(message):
            for leave in (socket.socket.close, peers.reset):
                def say(sock, leave=leave):
                    clc.receive(sock, clc.PROPOSAL)
                    sock.sendall(message)
                    leave(sock)
                self.say = say
                self.assertTrue(peers.meets_reset(self.outbound.address("bad")))
            if len(message) % 16 == 0:
                self.honest_connections_work()
        self.hostile.handle = lambda sock: self.say(sock)  # and no echo
        self.twice({f"{count} bytes": self.accept()[:count] for count in range(68)}, run)


class HostileServerOfVersion1(ServerTest):
    """Answers in version 1 to a client that has offered version 2 alone."""
    client = BOTH

    def test_accepts_of_version_1(self):
        def then(sock):
            self.got = clc.receive(sock, clc.DECLINE)

        def run(message):
            self.answer(message, then)
            self.assertEqual((self.got.reason, self.got.bits), (clc.MODE_MISMATCH, 0x10))
            self.expect_fallback(self.outbound, "mode_mismatch")
        self.twice({"first contact": self.accept(), "no first contact": self.accept(first_contact=False)}, run)


class SecondContact(Attacked):
    """Between two honest proxies, whose first contact is true, somebody changes one message of the second. To each
    proxy the other is a peer that has a link and becomes hostile."""

    def setUp(self):
        super().setUp()
        smc = merge(ONE, {"smc": {"assume": ["127.0.0.9/32"]}})
        self.inbound = self.start("in", [listener("in", "inbound", self.application.address)], smc)
        self.tap = peers.serve(self, self.pass_on, host="127.0.0.9")
        self.outbound = self.start("out", [listener("good", "outbound", self.inbound.address("in")),
                                           listener("bad", "outbound", self.tap.address)], smc)
        self.entry = self.outbound.address("good")
        self.change = {}
        self.changed_message_sent = threading.Event()

    def pass_on(self, near):
        change, self.change = self.change, {}
        with peers.connect(self.inbound.address("in"), timeout=60, source="127.0.0.9") as far, \
                contextlib.suppress(OSError, AssertionError):
            sides = ((near, far), (far, near), (near, far))
            is_clc = near.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL) == clc.EYECATCHER
            for source, target in sides if is_clc else ():
                message = clc.receive(source)
                target.sendall(change.get(message.kind, lambda data: data)(message.data))
                if message.kind in change:
                    self.changed_message_sent.set()
                if message.kind == clc.DECLINE:
                    break
            back = peers.Task(self.pump, far, near)
            self.pump(near, far)
            back.join()

    @staticmethod
    def pump(source, target):
        try:
            while part := source.recv(peers.BLOCK_BYTES):
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            for sock in (source, target):
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    sock.shutdown(socket.SHUT_RD)  # the other thread wakes up, and both ends are reset

    def run_rows(self, kind, rows):
        """A row: the change, what the second connection is then, the reasons at the inbound and outbound proxy."""
        def run(row):
            change, outcome, *reasons = row
            with peers.connect(self.outbound.address("bad")) as first:
                self.assert_honest(first)
                self.changed_message_sent.clear()
                self.change = {kind: change}
                with peers.connect(self.outbound.address("bad")) as second:
                    second.sendall(b"honest")
                    if outcome == "carried":
                        self.assertEqual(peers.receive_exactly(second, 6), b"honest")
                    elif outcome == "reset":
                        self.assertTrue(peers.ends_in_reset(second))
                    self.honest_connections_work()
                    self.assert_honest(first)
                    if outcome == "silent":  # until the application gives up
                        wait_until(self.changed_message_sent.is_set, "the changed message to be sent")
                        self.expect(reasons)
                        self.check_counts()
                        peers.reset(second)
            if outcome != "silent":
                self.expect(reasons)
        self.twice(rows, run)

    def expect(self, reasons):
        for proxy, reason in zip((self.inbound, self.outbound), reasons):
            if reason == "refused":
                self.refused[proxy] += 1
            elif reason and isinstance(reason[0], tuple):
                self.expect_one_of(proxy, *reason)
            elif reason:
                self.expect_fallback(proxy, *reason)

    @staticmethod
    def at(where, new):
        return lambda data: changed(data, where, new)

    @staticmethod
    def of_version_2(data):
        return clc.answer(data[4], data[16:32], peer_id=data[8:16], first_contact=False,
                          queue_pair=int.from_bytes(data[38:41], "big"))

    def test_accepts(self):
        def both(reason):
            return "carried", (reason, "peer"), (reason, "local")
        no_key = both("memory_registration")
        self.run_rows(clc.ACCEPT, {
            "version 2": (self.of_version_2, *both("mode_mismatch")),
            "version 0": (self.at(7, [0]), "carried", ("peer_not_injected", "local"), ("malformed_clc", "local")),
            # The client makes a second queue pair for that of the server, which has one already. It learns of that
            # from its device or from the Decline of the server.
            "first contact": (self.at(7, [0x18]), "carried", ("sync_error", "local"),
                              (("no_active_link", "local"), ("sync_error", "peer"))),
            "queue pair": (self.at(38, [0, 0, 1]), *both("link_not_found")),
            "key": (self.at(41, [9] * 4), *no_key), "index": (self.at(45, [255]), *no_key),
            "address": (self.at(52, [255] * 8), *no_key), "size code": (self.at(50, [0xF5]), *both("memory")),
            "token": (self.at(46, [9] * 4), "silent"),
            "GID": (self.at(16, [0]), *both("no_route")), "peer id": (self.at(8, [1]), *both("sync_error")),
            "MAC": (self.at(32, [1]), *both("sync_error"))})

    def test_confirms(self):
        """The client uses the link already. A Decline ends its connection; without one its application waits."""
        self.run_rows(clc.CONFIRM, {
            "version 2": (self.of_version_2, "reset", ("version_mismatch", "local"), "refused"),
            "version 0": (self.at(7, [0]), "reset", "refused"),
            "first contact": (self.at(7, [0x18]), "reset", ("sync_error", "local"), "refused"),
            "queue pair": (self.at(38, [0, 0, 1]), "carried"), "GID": (self.at(31, [1]), "carried"),
            "peer id": (self.at(8, [1]), "carried"), "MAC": (self.at(32, [1]), "carried"),
            "key": (self.at(41, [9] * 4), "reset"), "index": (self.at(45, [255]), "reset"),
            "address": (self.at(52, [255] * 8), "reset"), "size code": (self.at(50, [0xF5]), "reset"),
            "token": (self.at(46, [9] * 4), "silent")})


if __name__ == "__main__":
    main()
