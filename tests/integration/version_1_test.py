"""SMC-R version 1: between proxies that are restricted to it, and with raw peers that use it wrongly."""
import clc
import peers
from harness import ProxyTest, listener, main, merge

ONE = {"smc": {"version": 1}}
TWO = {"smc": {"version": 2}}
ASSUMED = {"smc": {"assume": ["127.0.0.0/8"]}}


class Pairs(ProxyTest):
    def setUp(self):
        super().setUp()
        self.server = peers.Server(peers.echo)
        self.addCleanup(self.server.close)

    def exchange(self, client, server):
        self.start_pair(self.server.address, client=client, server=server)
        for size in (1, 70_000):
            self.assertEqual(peers.exchange(self.entry, bytes(size)), bytes(size))

    def versions(self, proxy):
        return {group["version"] for group in proxy.get_json("/linkgroups")["link_groups"]}

    def test_two_that_are_held_to_it(self):
        self.exchange(ONE, ONE)
        self.assert_smcr()
        for proxy in self.proxies:
            groups = proxy.get_json("/linkgroups")["link_groups"]
            self.assertEqual([(group["version"], group["ueid"]) for group in groups], [("1", "")])

    def test_a_server_of_both_versions_serves_a_client_of_version_1(self):
        self.exchange(ONE, {})
        self.assert_smcr()
        self.assertEqual([self.versions(proxy) for proxy in self.proxies], [{"1"}, {"1"}])

    def test_version_2_is_preferred(self):
        self.exchange({}, {})
        self.assert_smcr()
        self.assertEqual([self.versions(proxy) for proxy in self.proxies], [{"2.1"}, {"2.1"}])

    def test_without_a_common_version_it_is_tcp(self):
        for client, server in ((ONE, TWO), (TWO, ONE)):
            with self.subTest(client=client):
                self.exchange(client, server)
                self.wait_fallback(self.inbound, "peer_no_smc", count=2)
                self.wait_fallback(self.outbound, "peer_no_smc", side="peer", count=2)


class RawClient(ProxyTest):
    def setUp(self):
        super().setUp()
        self.server = peers.Server(peers.echo)
        self.addCleanup(self.server.close)
        self.start_pair(self.server.address, client=ONE, server=merge(ONE, ASSUMED))
        self.target = self.inbound.address("in")
        self.honest = clc.Gid(self.outbound)

    def propose(self, sock, **changes):
        sock.sendall(clc.proposal_v1(**{"peer_id": self.honest.peer_id, "fabric": self.honest.fabric,
                                        "gid": self.honest.bytes, **changes}))

    def expect_decline(self, sock, reason):
        decline = clc.receive(sock, clc.DECLINE)
        self.assertEqual((decline.reason, decline.bits, len(decline.data)), (reason, 0x10, 28))
        sock.sendall(b"and so it is TCP")
        self.assertEqual(peers.receive_exactly(sock, 16), b"and so it is TCP")

    def finish(self, reason, count=1):
        """Only the connection of the raw client fails."""
        self.wait_fallback(self.inbound, reason, count=count)
        self.assertIn(f"reason={reason}", self.inbound.log())
        self.wait_idle()
        self.assertEqual(peers.exchange(self.entry, b"honest"), b"honest")
        self.assert_smcr(self.outbound)

    def test_accept_has_68_bytes_and_no_extension(self):
        with peers.connect(self.target) as sock:
            self.propose(sock)
            accept = clc.receive(sock, clc.ACCEPT)
            self.assertEqual((len(accept.data), accept.bits), (68, 0x18))
            self.assertEqual(accept.gid, clc.Gid(self.inbound).bytes)

    def test_subnets_that_are_refused(self):
        areas = {"not the server's": ("127.0.0.0", 9), "not the client's own": ("10.0.0.0", 8),
                 "a length that no prefix has": ("127.0.0.0", 200)}
        for what, area in areas.items():
            with self.subTest(what), peers.connect(self.target) as sock:
                self.propose(sock, area=clc.subnet(*area))
                self.expect_decline(sock, clc.PREFIX_MISMATCH)
        self.finish("prefix_mismatch", count=len(areas))

    def test_a_confirm_of_version_2(self):
        with peers.connect(self.target) as sock:
            self.propose(sock)
            clc.receive(sock, clc.ACCEPT)
            sock.sendall(clc.answer(clc.CONFIRM, self.honest.bytes))
            self.assertEqual(clc.receive(sock, clc.DECLINE).reason, clc.VERSION_MISMATCH)
        self.finish("version_mismatch")


class RawServer(ProxyTest):
    def setUp(self):
        super().setUp()
        bystander = self.start("bystander", [listener("in", "inbound", ("127.0.0.1", 9))])
        self.borrowed = clc.Gid(bystander).bytes

    def serve(self, behave):
        self.server = peers.Server(behave)
        self.addCleanup(self.server.close)
        self.outbound = self.start("out", [listener("out", "outbound", self.server.address)],
                                   merge(ONE, ASSUMED))
        entry = self.outbound.address("out")
        self.assertEqual(peers.exchange(entry, b"the application's words"), b"the application's words")
        self.server.results()

    def test_proposal_is_what_the_documents_say(self):
        def behave(sock):
            own = clc.Gid(self.outbound)
            proposal = clc.receive(sock, clc.PROPOSAL).data
            self.assertEqual(proposal, clc.proposal_v1(own.peer_id, own.fabric, own.bytes,
                                                       mac=proposal[32:38]))
            sock.sendall(clc.decline_v1(clc.NO_DEVICE))
            peers.echo(sock)
        self.serve(behave)

    def test_an_answer_in_version_2(self):
        def behave(sock):
            clc.receive(sock, clc.PROPOSAL)
            sock.sendall(clc.answer(clc.ACCEPT, self.borrowed))
            self.assertEqual(clc.receive(sock, clc.DECLINE).reason, clc.MODE_MISMATCH)
            peers.echo(sock)
        self.serve(behave)
        self.wait_fallback(self.outbound, "mode_mismatch")
        self.assertIn("reason=mode_mismatch", self.outbound.log())

    def test_an_answer_names_a_group_that_never_was(self):
        def behave(sock):
            clc.receive(sock, clc.PROPOSAL)
            sock.sendall(clc.answer_v1(clc.ACCEPT, self.borrowed, first_contact=False))
            decline = clc.receive(sock, clc.DECLINE)
            self.assertEqual((decline.reason, decline.bits, len(decline.data)), (clc.SYNC_ERROR, 0x18, 28))
            peers.echo(sock)
        self.serve(behave)
        self.wait_fallback(self.outbound, "sync_error")


if __name__ == "__main__":
    main()
