"""A raw client in an assumed network sends arbitrary data to the inbound port. The proxy always answers,
passes the data to the application or resets. No state remains, and other connections are not affected."""
import contextlib
import itertools
import random
import socket
import struct

import clc
import peers
from harness import ProxyTest, listener, main, short_milliseconds, wait_until


class ClientTest(ProxyTest):
    handshake_timeout = "60s"

    def setUp(self):
        super().setUp()
        self.server = peers.serve(self, peers.echo)
        # The outbound proxy is an honest peer, whose identity the hostile client may copy.
        self.start_pair(self.server.address, server={"smc": {
            "assume": ["127.0.0.0/8"], "handshake_timeout": self.handshake_timeout}})
        self.target = self.inbound.address("in")
        self.honest = clc.Gid(self.outbound)

    def proposal(self, **changes):
        return clc.proposal(**{"peer_id": self.honest.peer_id, "fabric": self.honest.fabric, **changes})

    def finish(self, fallbacks, refused=0):
        """Checks that everything is counted, no state is left, and an honest client is served."""
        def counted():
            metrics = self.inbound.metrics()
            return metrics.fallbacks() == fallbacks and \
                metrics.value("fairlead_connections_refused_total") == refused
        wait_until(counted, f"{fallbacks} and {refused} refused, there is "
                   f"{self.inbound.metrics().fallbacks()} and "
                   f"{self.inbound.metrics().value('fairlead_connections_refused_total')}")
        self.wait_idle()
        self.assert_honest_client_is_served()
        if self.handshake_timeout == ClientTest.handshake_timeout:
            self.assert_smcr(self.outbound)
        self.wait_idle()

    def assert_honest_client_is_served(self):
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"honest")

    def receive_accept(self, sock):
        sock.sendall(self.proposal())
        accept = clc.receive(sock, clc.ACCEPT)
        self.assertEqual(accept.gid, clc.Gid(self.inbound).bytes)
        return accept


class HostileClient(ClientTest):
    def test_plain_bytes_reach_the_application(self):
        plain = [b"GET / HTTP/1.1\r\n\r\n", b"x", random.Random(1).randbytes(100_000),
                 b"\xe2\xd4\xc3\xd8" + bytes(152),  # the eyecatcher, but for its last bit
                 b"\xe2\xd4xyz", bytes(5000)]
        for data in plain:
            with peers.connect(self.target) as sock:
                peers.assert_echo(sock, data)
        self.finish({("peer_not_injected", "local"): len(plain)})

    def test_malformed_messages_are_refused(self):
        good = self.proposal()
        first = clc.answer(clc.ACCEPT, self.honest.bytes)
        bad = {
            "length below a header": clc.frame(clc.PROPOSAL, bytes(32), 0x22, length=7),
            "length zero": clc.frame(clc.PROPOSAL, bytes(32), 0x22, length=0),
            "length without end": clc.frame(clc.PROPOSAL, bytes(32), 0x22, length=0xFFFF),
            "length one too large": good[:5] + struct.pack(">H", len(good) + 1) + good[7:] + b"\0",
            "version 0": good[:7] + b"\x02" + good[8:],
            "type 0": good[:4] + b"\0" + good[5:],
            "type 99": good[:4] + b"c" + good[5:],
            "trailer": good[:-1] + b"\0",
            "Accept first": first,
            "Confirm first": clc.answer(clc.CONFIRM, self.honest.bytes),
            "nine UEIDs": clc.proposal(ueids=["A"] * 9),
            "UEID count beyond the message": good[:80] + b"\x08" + good[81:],
            "extension outside": good[:50] + struct.pack(">H", 5000) + good[52:],
            "IP area outside": good[:38] + struct.pack(">H", 9999) + good[40:],
        }
        for name, data in bad.items():
            with self.subTest(name), peers.connect(self.target) as sock:
                sock.sendall(data)
                self.assertTrue(peers.ends_in_reset(sock))
        self.finish({}, refused=len(bad))
        self.assertEqual(len(self.server.tasks), 1)  # the honest one

    def test_random_damage(self):
        """One changed byte or a truncation at any position causes neither a crash nor a hang."""
        generator = random.Random(2)
        good = self.proposal()
        for _ in range(300):
            data = bytearray(good)
            data[generator.randrange(4, len(data))] = generator.randrange(256)
            if generator.randrange(3) == 0:
                del data[generator.randrange(4, len(data)):]
            with contextlib.suppress(OSError):  # a reset, at any of these calls
                with peers.connect(self.target) as sock:
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                    peers.receive_all(sock)
        self.wait_idle()
        self.assert_honest_client_is_served()
        self.assert_smcr(self.outbound)

    def test_declined_proposals_go_on_as_tcp(self):
        cases = [
            ({"fabric": bytes(5)}, clc.NO_RDMA_DEVICE, "no_rdma_device"),
            ({"fabric": bytes(4) + b"\1"}, clc.NO_RDMA_DEVICE, "no_rdma_device"),
            ({"ueids": ["STRANGER"]}, clc.NO_DEVICE, "no_device"),
            ({"ueids": []}, clc.NO_UEID, "peer_no_ueid"),
            ({"max_connections": 15}, clc.MAX_CONNECTIONS, "max_connections_mismatch"),
            ({"max_links": 0}, clc.MAX_LINKS, "max_links_mismatch"),
        ]
        counts = {}
        for changes, code, reason in cases:
            with self.subTest(changes), peers.connect(self.target) as sock:
                sock.sendall(self.proposal(**changes))
                self.assertEqual(clc.receive(sock, clc.DECLINE).reason, code)
                peers.assert_echo(sock, b"and so it is TCP")
                counts[reason, "local"] = counts.get((reason, "local"), 0) + 1
        self.finish(counts)

    def test_decline_first(self):
        """A kernel without an RNIC does so; data may follow directly."""
        for message in (clc.decline(clc.NO_DEVICE), clc.decline_v1(clc.NO_DEVICE)):
            with peers.connect(self.target) as sock:
                self.assert_echo_after(sock, message, b"data right behind")
        self.finish({("no_device", "peer"): 2})

    def assert_echo_after(self, sock, message, data):
        sock.sendall(message + data)
        self.assertEqual(peers.receive_exactly(sock, len(data)), data)
        peers.assert_echo(sock, b"and more")

    def test_proposal_byte_by_byte(self):
        with peers.connect(self.target) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in self.proposal(fabric=bytes(5)):
                sock.sendall(bytes([byte]))
            self.assertEqual(clc.receive(sock, clc.DECLINE).reason, clc.NO_RDMA_DEVICE)
            peers.assert_echo(sock, b"in small steps")
        self.finish({("no_rdma_device", "local"): 1})

    def test_confirm_that_does_not_fit_is_declined(self):
        cases = [({"release": 0}, clc.RELEASE_MISMATCH, "release_mismatch"),
                 ({"max_connections": 16}, clc.MAX_CONNECTIONS, "max_connections_mismatch"),
                 ({"max_links": 2}, clc.MAX_LINKS, "max_links_mismatch"),
                 ({"first_contact": False}, clc.SYNC_ERROR, "sync_error")]
        for changes, code, _ in cases:
            with self.subTest(changes), peers.connect(self.target) as sock:
                self.receive_accept(sock)
                sock.sendall(clc.answer(clc.CONFIRM, self.honest.bytes, **changes))
                self.assertEqual(clc.receive(sock, clc.DECLINE).reason, code)
                peers.assert_echo(sock, b"and so it is TCP")
        self.finish({(reason, "local"): 1 for _, _, reason in cases})

    def test_decline_after_the_accept(self):
        with peers.connect(self.target) as sock:
            self.receive_accept(sock)
            self.assert_echo_after(sock, clc.decline(clc.NO_ROUTE), b"data right behind")
        self.finish({("no_route", "peer"): 1})

    def test_disconnect_in_each_phase(self):
        end = [lambda sock: sock.close(), peers.reset]
        phases = [lambda sock: None, lambda sock: sock.sendall(self.proposal()[:50]),
                  lambda sock: sock.sendall(self.proposal()), self.receive_accept]
        for leave, reach in itertools.product(end * 3, phases):
            sock = peers.connect(self.target)
            reach(sock)
            leave(sock)
        self.wait_idle()
        self.assert_honest_client_is_served()
        self.assert_smcr(self.outbound)

    def test_accepts_that_nobody_answers_end_their_group(self):
        """The elements that they named are freed when the honest peer's connections have ended, at the latest."""
        with peers.connect(self.entry) as before:
            peers.assert_echo(before, b"first")
            for _ in range(40):  # more than a group keeps in quarantine
                with peers.connect(self.target) as sock:
                    self.receive_accept(sock)
            with peers.connect(self.entry) as after:
                peers.assert_echo(after, b"second")
                peers.assert_echo(before, b"still there")
                groups = self.inbound.get_json("/linkgroups")["link_groups"]
                self.assertEqual([group["connections"] for group in groups], [1, 1], groups)
        self.wait_idle()
        self.assertEqual(self.inbound.log().count(
            'why="too many connections that the peer never finished"'), 1)
        self.assert_smcr(self.outbound)

    def test_an_impostor_at_the_same_address_does_not_end_the_group_of_the_peer_whose_id_it_claims(self):
        """It says that it does not know the group. The peer itself still answers there."""
        with peers.connect(self.entry) as before:
            peers.assert_echo(before, b"first")
            for _ in range(3):
                with peers.connect(self.target) as sock:
                    sock.sendall(self.proposal())
                    self.assertEqual(clc.receive(sock, clc.ACCEPT).bits, 0x20)  # names the group of the peer
                    sock.sendall(clc.decline(clc.SYNC_ERROR, bits=0x28))
                    peers.assert_echo(sock, b"and so it is TCP")
                peers.assert_echo(before, b"still there")
                with peers.connect(self.entry) as after:
                    peers.assert_echo(after, b"and more")
        self.finish({("sync_error", "peer"): 3})

    def stranger(self):
        """A client at another address than the honest peer's."""
        return peers.connect(self.target, source="127.0.0.9")

    def test_a_stranger_elsewhere_does_not_delay_the_peer_whose_id_it_claims(self):
        with contextlib.ExitStack() as stack:
            strangers = [stack.enter_context(self.stranger()) for _ in range(20)]
            for sock in strangers:
                sock.sendall(self.proposal())
            clc.receive(strangers[0], clc.ACCEPT)  # and no Confirm: the others wait for it
            with peers.connect(self.entry) as honest:
                peers.assert_echo(honest, b"honest")
                self.assert_smcr(self.outbound)
        self.wait_idle()

    def test_a_stranger_elsewhere_does_not_use_up_the_group_of_the_peer_whose_id_it_claims(self):
        with peers.connect(self.entry) as before:
            peers.assert_echo(before, b"first")
            for _ in range(40):  # more than a group keeps in quarantine
                with self.stranger() as sock:
                    self.receive_accept(sock)
            with peers.connect(self.entry) as after:
                peers.assert_echo(after, b"second")
                groups = [group["connections"] for group in self.inbound.get_json("/linkgroups")["link_groups"]]
                self.assertEqual(max(groups), 2, groups)
        self.wait_idle()
        self.assert_smcr(self.outbound)


class SilentClient(ClientTest):
    """An incomplete message of the client ends in the handshake timeout."""
    handshake_timeout = f"{5 * short_milliseconds()}ms"

    def test_silent_stranger_gets_its_application(self):
        """Like clients of protocols in which the server sends first."""
        def greet(sock):
            sock.sendall(b"hello")
            peers.echo(sock)
        self.server.handle = greet
        with peers.connect(self.target) as sock:
            self.assertEqual(peers.receive_exactly(sock, 5), b"hello")
            peers.assert_echo(sock, b"thank you")
        self.server.handle = peers.echo
        self.finish({("peer_not_injected", "local"): 1})

    def test_silence_in_the_middle_of_a_proposal(self):
        with peers.connect(self.target) as sock:
            sock.sendall(self.proposal()[:100])
            self.assertTrue(peers.ends_in_reset(sock))
        self.finish({}, refused=1)

    def test_wrong_answers_to_an_accept_are_refused(self):
        """And the application's connection ends as well."""
        answers = {"nothing": b"", "garbage": bytes(200), "half a Confirm":
                   clc.answer(clc.CONFIRM, self.honest.bytes)[:90], "a Proposal": self.proposal(),
                   "an Accept": clc.answer(clc.ACCEPT, self.honest.bytes),
                   "no token": clc.answer(clc.CONFIRM, self.honest.bytes, token=0),
                   "no element": clc.answer(clc.CONFIRM, self.honest.bytes, index=0)}
        for name, data in answers.items():
            with self.subTest(name), peers.connect(self.target) as sock:
                self.receive_accept(sock)
                sock.sendall(data)
                self.assertTrue(peers.ends_in_reset(sock))
        wait_until(lambda: len(self.server.tasks) == len(answers), "the application's connections")
        for task in self.server.tasks:
            with contextlib.suppress(ConnectionResetError):
                task.finish()
        self.finish({}, refused=len(answers))


if __name__ == "__main__":
    main()
