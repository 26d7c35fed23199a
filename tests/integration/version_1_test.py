"""SMC-R version 1 between proxies that are restricted to it."""
import peers
from harness import ProxyTest, main

ONE = {"smc": {"version": 1}}
TWO = {"smc": {"version": 2}}


class Pairs(ProxyTest):
    def setUp(self):
        super().setUp()
        self.server = peers.serve(self, peers.echo)

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


if __name__ == "__main__":
    main()
