"""A raw server in an assumed network answers the Proposals of the outbound side with arbitrary data.
The application's bytes always arrive, over TCP, once and in order."""
import queue
import socket

import clc
import peers
from harness import ProxyTest, listener, main, seconds, short_milliseconds, wait_until

ASSUMED = {"smc": {"assume": ["127.0.0.0/8"]}}


class HostileServer(ProxyTest):
    def setUp(self):
        super().setUp()
        # An honest proxy of the same fabric, whose GID the hostile server may borrow.
        self.bystander = self.start("bystander", [listener("in", "inbound", ("127.0.0.1", 9))])
        self.borrowed = clc.Gid(self.bystander).bytes
        self.seen = queue.Queue()
        self.options = ASSUMED

    def expect_timeout(self):
        """The handshake timeout: short, for a server that sends nothing."""
        self.options = {"smc": {**ASSUMED["smc"], "handshake_timeout": f"{short_milliseconds()}ms"}}

    def serve(self, *behaviours):
        """The first connection gets the first behaviour, and so on; the last one all others."""
        waiting = list(behaviours)

        def handle(sock):
            behaviour = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            return behaviour(sock)
        self.server = peers.serve(self, handle)
        self.outbound = self.start("out", [listener("out", "outbound", self.server.address)])
        self.entry = self.outbound.address("out")

    def after_proposal(self, say):
        """Reads the Proposal, sends data, and then reads the reaction of the proxy."""
        def behave(sock):
            proposal = clc.receive(sock, clc.PROPOSAL)
            self.seen.put(proposal)
            say(sock)
            return peers.receive_all(sock)
        return behave

    def talk(self, data=b"the application's first words"):
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, data)
            peers.assert_echo(sock, b"more")

    def assert_redialled(self, say, reason):
        self.serve(self.after_proposal(say), peers.echo)
        self.talk()
        self.wait_fallback(self.outbound, reason)
        self.wait_idle()
        proposal = self.seen.get_nowait()
        self.assertEqual(proposal.peer_id, clc.Gid(self.outbound).peer_id)
        self.assertEqual(len(self.server.tasks), 2)

    def test_proposal_is_what_the_documents_say(self):
        def check(sock):
            proposal = clc.receive(sock, clc.PROPOSAL).data
            own = clc.Gid(self.outbound)
            expected = clc.proposal(peer_id=own.peer_id, fabric=own.fabric, gid=own.bytes)
            self.assertEqual(proposal, expected[:32] + proposal[32:38] + expected[38:])
            sock.sendall(clc.decline(clc.NO_DEVICE))
            peers.echo(sock)
        self.serve(check)
        self.talk()
        self.server.results()

    def test_silence(self):
        self.expect_timeout()
        self.assert_redialled(lambda sock: None, "handshake_timeout")

    def test_half_an_accept(self):
        self.expect_timeout()
        self.assert_redialled(
            lambda sock: sock.sendall(clc.answer(clc.ACCEPT, self.borrowed)[:80]),
            "handshake_timeout")

    def test_accept_in_pieces_that_come_too_slowly(self):
        """Each part arrives in time, but the whole message does not."""
        def drip(sock):
            clc.receive(sock, clc.PROPOSAL)
            sock.settimeout(short_milliseconds() / 4000)
            for byte in clc.answer(clc.ACCEPT, self.borrowed):
                sock.sendall(bytes([byte]))
                try:
                    if not sock.recv(1):
                        return
                except socket.timeout:
                    continue
                except ConnectionResetError:
                    return
        self.expect_timeout()
        self.serve(drip, peers.echo)
        self.talk()
        self.wait_fallback(self.outbound, "handshake_timeout")

    def test_garbage(self):
        self.assert_redialled(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                              "malformed_clc")

    def test_malformed_accepts(self):
        for name, message in {
                "no token": clc.answer(clc.ACCEPT, self.borrowed, token=0),
                "no element": clc.answer(clc.ACCEPT, self.borrowed, index=0),
                "MTU code 0": clc.answer(clc.ACCEPT, self.borrowed, mtu=0),
                "MTU code 6": clc.answer(clc.ACCEPT, self.borrowed, mtu=6),
                "trailer": clc.answer(clc.ACCEPT, self.borrowed, end=b"\0\0\0\0"),
                "length": clc.answer(clc.ACCEPT, self.borrowed, length=0xFFFF),
                "Confirm": clc.answer(clc.CONFIRM, self.borrowed),
                "Proposal": clc.proposal()}.items():
            with self.subTest(name):
                self.assert_redialled(lambda sock, data=message: sock.sendall(data), "malformed_clc")

    def test_decline_with_data_behind_it(self):
        for message, reason in ((clc.decline(clc.NO_DEVICE), "no_device"),
                                (clc.decline_v1(clc.NO_RDMA_DEVICE), "no_rdma_device"),
                                (clc.decline(clc.NO_DEVICE, bits=0x27), "no_device"),  # all that is reserved
                                (clc.decline_v1(clc.NO_DEVICE, bits=0x12), "no_device"),
                                (clc.decline(0x12345678), "peer_declined")):
            with self.subTest(reason):
                def greet(sock, data=message):
                    clc.receive(sock, clc.PROPOSAL)
                    sock.sendall(data + b"220 hello, all in one segment")
                    peers.echo(sock)
                self.serve(greet)
                with peers.connect(self.entry) as sock:
                    self.assertEqual(peers.receive_exactly(sock, 29),
                                     b"220 hello, all in one segment")
                    peers.assert_echo(sock, b"x" * 100_000)
                self.wait_fallback(self.outbound, reason, side="peer")
                self.wait_idle(self.outbound)

    def accept(self, sock, **values):
        """Keeps what is sent behind the Accept and a Confirm."""
        clc.receive(sock, clc.PROPOSAL)
        sock.sendall(clc.answer(clc.ACCEPT, **{"gid": self.borrowed, **values}))
        message = clc.receive(sock)
        while message.kind == clc.CONFIRM:
            message = clc.receive(sock)
        self.seen.put(message)
        peers.echo(sock)

    def assert_declined(self, code, reason, **values):
        """A well-formed but wrong Accept is answered by a Decline, and TCP follows."""
        self.serve(lambda sock: self.accept(sock, **values))
        self.talk()
        message = self.seen.get(timeout=seconds(10))
        self.assertEqual((message.kind, message.reason), (clc.DECLINE, code))
        self.wait_fallback(self.outbound, reason)
        self.wait_idle(self.outbound)
        return message

    def test_accepts_that_do_not_fit_are_declined(self):
        stranger = bytes.fromhex("00000000000000000000ffff0a000001")
        for changes, code, reason in (
                ({"gid": stranger}, clc.NO_ROUTE, "no_route"),
                ({"gid": self.borrowed[:8] + bytes(8)}, clc.NO_ROUTE, "no_route"),
                ({"direct": False}, clc.INDIRECT_MISMATCH, "indirect_mismatch"),
                ({"release": 2}, clc.RELEASE_MISMATCH, "release_mismatch"),
                ({"max_connections": 15}, clc.MAX_CONNECTIONS, "max_connections_mismatch"),
                ({"max_links": 2}, clc.MAX_LINKS, "max_links_mismatch"),
                ({"max_links": 0}, clc.MAX_LINKS, "max_links_mismatch")):
            with self.subTest(str(changes)):
                self.assert_declined(code, reason, **changes)

    def test_unknown_link_group_is_out_of_sync(self):
        message = self.assert_declined(clc.SYNC_ERROR, "sync_error", first_contact=False)
        self.assertTrue(message.out_of_sync)

    def test_unknown_link_of_a_known_group_leaves_the_group(self):
        """If the group is known but the link is not, only this connection is TCP."""
        with peers.Server(peers.echo) as application:
            honest = self.start("honest", [listener("in", "inbound", application.address)])

            hostile = peers.serve(self, lambda sock: self.accept(sock, gid=clc.Gid(honest).bytes, first_contact=False))
            self.outbound = self.start("out", [listener("good", "outbound", honest.address("in")),
                                               listener("bad", "outbound", hostile.address)])
            for entry in ("good", "bad", "good"):
                self.entry = self.outbound.address(entry)
                self.talk()
            declined = self.seen.get_nowait()
            self.assertEqual((declined.kind, declined.reason, declined.out_of_sync), (clc.DECLINE, clc.LINK_NOT_FOUND, False))
            self.wait_fallback(self.outbound, "link_not_found")
            self.assertEqual(self.outbound.metrics().connections("smcr"), 2)
            self.assertEqual(self.outbound.metrics().value("fairlead_link_events_total", event="added"), 1)

    def test_link_that_nobody_confirms(self):
        """The handshake is correct up to Confirm, but the peer's queue pair does not exist."""
        self.expect_timeout()
        self.serve(self.accept, peers.echo)
        self.talk()
        wait_until(lambda: self.outbound.metrics().fallbacks(), "the fallback")
        self.assertEqual(self.outbound.metrics().connections("smcr"), 0)
        (reason, side), = self.outbound.metrics().fallbacks()
        self.assertEqual(side, "local")
        self.assertIn(reason, ("confirm_link_timeout", "qp_not_ready", "no_active_link"))
        self.wait_idle(self.outbound)

    def test_disconnect_after_the_proposal(self):
        """The application sees the end at once and does not keep an open connection."""
        for leave in (socket.socket.close, peers.reset):
            with self.subTest(leave.__name__):
                self.serve(self.after_proposal(leave))
                self.assertTrue(peers.meets_reset(self.entry))
                self.wait_idle(self.outbound)


if __name__ == "__main__":
    main()
