"""If SMC-R is not possible, the same connection uses TCP. The exact reason is counted and reported, and no
byte is lost."""
import signal
import socket

import peers
from harness import ProxyTest, amount, listener, main, wait_until
from node_broker import NodeBroker


class Fallback(ProxyTest):
    def setUp(self):
        super().setUp()
        self.server = peers.Server(peers.echo)
        self.addCleanup(self.server.close)

    def talk(self, entry=None):
        with peers.connect(entry or self.entry) as sock:
            for message in (b"x", b"y" * 70_000):
                sock.sendall(message)
                self.assertEqual(peers.receive_exactly(sock, len(message)), message)

    def check(self, proxy, reason, side="local"):
        self.talk()
        self.wait_fallback(proxy, reason, side)
        for each in self.proxies:
            self.assertEqual(each.metrics().connections("smcr"), 0, each.name)
            self.assertEqual(each.metrics().connections("tcp"), 1, each.name)
        self.assert_explained(proxy, reason, side)

    def assert_explained(self, proxy, reason, side):
        row = proxy.get_json("/fallbacks")["fallbacks"][0]
        self.assertEqual((row["reason"], row["side"], row["count"]), (reason, side, 1))
        self.assertTrue(row["sentence"] and row["hint"])
        decision = proxy.get_json("/why")["decisions"][0]
        self.assertEqual((decision["transport"], decision["reason"]), ("tcp", reason))
        self.assertTrue(decision["steps"])
        self.assertEqual(proxy.ctl("fallbacks")["fallbacks"][0]["reason"], reason)
        self.assertIn(f"reason={reason}", proxy.log())

    def test_peer_without_a_proxy(self):
        self.outbound = self.start("out", [listener("out", "outbound", self.server.address)])
        self.entry = self.outbound.address("out")
        self.check(self.outbound, "peer_not_injected")

    def test_client_without_a_proxy(self):
        self.inbound = self.start("in", [listener("in", "inbound", self.server.address)])
        self.entry = self.inbound.address("in")
        self.check(self.inbound, "peer_not_injected")

    def test_no_ueid_in_common(self):
        self.start_pair(self.server.address, {"smc": {"ueids": ["ONE"]}}, {"smc": {"ueids": ["TWO"]}})
        self.check(self.inbound, "no_device")
        self.wait_fallback(self.outbound, "no_device", "peer")

    def test_second_ueid_in_common(self):
        self.start_pair(self.server.address, {"smc": {"ueids": ["ONE", "BOTH"]}},
                        {"smc": {"ueids": ["TWO", "BOTH"]}})
        self.talk()
        self.assert_smcr()

    def test_proxies_of_different_brokers(self):
        other = NodeBroker()
        self.addCleanup(lambda: self.assertIsNone(other.finish()))
        self.start_pair(self.server.address, server=other.settings())
        self.inbound.wait_broker()
        self.check(self.inbound, "no_rdma_device")
        self.wait_fallback(self.outbound, "no_rdma_device", "peer")

    def test_no_device_at_all(self):
        for side in ("client", "server"):
            with self.subTest(side):
                self.start_pair(self.server.address,
                                **{side: {"devices": {"shm": {"enabled": False}}}})
                self.talk()
                self.wait_fallback(self.outbound if side == "client" else self.inbound,
                                   "no_rdma_device")

    def test_disabled(self):
        self.start_pair(self.server.address, client={"smc": {"enabled": False}})
        self.check(self.outbound, "disabled")
        self.wait_fallback(self.inbound, "peer_not_injected")

    def test_disabled_at_the_server(self):
        self.start_pair(self.server.address, server={"smc": {"enabled": False}})
        self.check(self.inbound, "disabled")

    def test_excluded(self):
        self.start_pair(self.server.address, client={"smc": {"exclude": ["127.0.0.0/8"]}})
        self.check(self.outbound, "policy_excluded")

    def test_excluded_at_the_server(self):
        self.start_pair(self.server.address, server={"smc": {"exclude": ["127.0.0.0/8"]}})
        self.check(self.inbound, "policy_excluded")

    def test_excluded_port(self):
        """Another port of the same host stays SMC-R."""
        self.start("in", [listener("in", "inbound", self.server.address),
                          listener("in2", "inbound", self.server.address)])
        inbound = self.proxies[0]
        port = inbound.address("in")[1]
        out = self.start("out", [listener("out", "outbound", inbound.address("in")),
                                 listener("out2", "outbound", inbound.address("in2"))],
                         {"smc": {"exclude": [{"cidr": "127.0.0.0/8", "ports": [port]}]}})
        self.talk(out.address("out"))
        self.wait_fallback(out, "policy_excluded")
        self.talk(out.address("out2"))
        self.assertEqual(out.metrics().connections("smcr"), 1)

    def test_no_option_program(self):
        self.start_pair(self.server.address, client={"smc": {"option_program": "none"}})
        self.check(self.outbound, "no_option_program")

    def test_assumption_needs_no_option(self):
        changes = {"smc": {"option_program": "none", "assume": ["127.0.0.1/32"]}}
        self.start_pair(self.server.address, changes, changes)
        self.talk()
        self.assert_smcr()

    def test_denied(self):
        self.outbound = self.start("out", [listener("out", "outbound", self.server.address)],
                                   {"fallback": "deny"})
        self.assertTrue(peers.meets_reset(self.outbound.address("out")))
        self.wait_fallback(self.outbound, "peer_not_injected")
        metrics = self.outbound.metrics()
        self.assertEqual(metrics.connections("tcp"), 0)
        self.assertEqual(metrics.value("fairlead_connections_refused_total"), 1)

    def test_required_port(self):
        """A rule resets what it is about, and another port of the same host is TCP."""
        other = peers.Server(peers.echo)
        self.addCleanup(other.close)
        ports = [self.server.address[1]]
        self.outbound = self.start("out", [listener("out", "outbound", self.server.address),
                                           listener("out2", "outbound", other.address)],
                                   {"smc": {"require": [{"cidr": "127.0.0.0/8", "ports": ports}]}})
        self.assertTrue(peers.meets_reset(self.outbound.address("out")))
        self.wait_fallback(self.outbound, "peer_not_injected")
        self.talk(self.outbound.address("out2"))
        metrics = self.outbound.metrics()
        self.assertEqual(metrics.connections("tcp"), 1)
        self.assertEqual(metrics.value("fairlead_connections_refused_total"), 1)

    def test_required_at_the_server(self):
        """The rule of a server is about its own ports, and it accepts no connection that begins as TCP."""
        ports = [self.server.address[1]]
        self.start_pair(self.server.address, server={"smc": {"require": [{"ports": ports}]}},
                        client={"smc": {"enabled": False}})
        self.assertTrue(peers.meets_reset(self.outbound.address("out")))
        self.wait_fallback(self.inbound, "peer_not_injected")

    def test_required_is_smcr_from_the_first_byte(self):
        ports = [self.server.address[1]]
        self.start_pair(self.server.address, server={"smc": {"require": [{"ports": ports}], "defer_bytes": "64KiB"}},
                        client={"smc": {"defer_bytes": "64KiB"}})
        self.talk()
        self.assert_smcr()

    def test_excluded_at_the_server_by_port(self):
        ports = [self.server.address[1]]
        self.start_pair(self.server.address, server={"smc": {"exclude": [{"ports": ports}]}})
        self.check(self.inbound, "policy_excluded")

    def test_denial_leaves_smcr_alone(self):
        changes = {"fallback": "deny"}
        self.start_pair(self.server.address, changes, changes)
        self.talk()
        self.assert_smcr()

    def test_large_and_small_data_over_tcp(self):
        """Through splice(2) and through the copying path, both ways at once."""
        def talk_back(sock):
            sender = peers.Task(peers.send_random, sock, count, 1)
            got = peers.receive_digest(sock)
            return got, sender.finish()
        count = amount(100_000_000)
        self.server.handle = talk_back
        self.outbound = self.start("out", [listener("out", "outbound", self.server.address)])
        with peers.connect(self.outbound.address("out")) as sock:
            receiver = peers.Task(peers.receive_exactly_digest, sock, count)
            sent = peers.send_random(sock, count, 2)
            sock.shutdown(socket.SHUT_WR)
            got = receiver.finish()
        self.assertEqual(self.server.results(), [(sent, got)])
        self.wait_fallback(self.outbound, "peer_not_injected")
        self.wait_idle()


class Draining(ProxyTest):
    def test_new_connections_are_tcp_while_old_ones_go_on(self):
        with peers.Server(peers.echo) as server:
            self.start_pair(server.address, client={"drain": {"timeout": "60s"}})
            with peers.connect(self.entry) as old:
                old.sendall(b"before")
                self.assertEqual(peers.receive_exactly(old, 6), b"before")
                self.outbound.process.send_signal(signal.SIGTERM)
                wait_until(lambda: self.outbound.metrics().value("fairlead_draining") == 1, "draining")
                with peers.connect(self.entry) as new:
                    new.sendall(b"during")
                    self.assertEqual(peers.receive_exactly(new, 6), b"during")
                    self.assertEqual(self.outbound.metrics().fallbacks(), {("draining", "local"): 1})
                old.sendall(b"still")
                self.assertEqual(peers.receive_exactly(old, 5), b"still")
            self.assertEqual(self.outbound.wait_exit(), 0)


if __name__ == "__main__":
    main()
