"""Groups of two and three links: a port fails under load, no byte is lost, and the link is added again."""
import time
import unittest

import peers
from harness import VARIANT, ProxyTest, amount, main, merge, seconds, wait_until
from ping_pong import PingPong
from ports import THREE_PORTS, TWO_PORTS, take_port, wait_links, wait_symmetric

CONNECTIONS = 6
# Time limit for a connection to carry data again. It is shorter than every timer of the proxies, of which
# the shortest is set to a minute. So the event of the port must cause the recovery.
GAP_SECONDS_MAX = 5


class LoadedPair(ProxyTest):
    def start_loaded_pair(self):
        server = peers.serve(self, peers.echo)
        self.start_pair(server.address)
        self.pingers = [PingPong(self.entry, seed, (1, 100, 4000, 30000)) for seed in range(CONNECTIONS)]
        wait_until(lambda: all(pinger.rounds > 10 for pinger in self.pingers), "answers")
        wait_symmetric(self.outbound, self.inbound)

    def stop_load(self):
        for pinger in self.pingers:
            pinger.finish()

    def wait_answers(self):
        """Each connection goes on."""
        before = [pinger.rounds for pinger in self.pingers]
        wait_until(lambda: all(pinger.rounds > count + 20 for pinger, count in zip(self.pingers, before)), "answers")

    def lose_and_regain_each_port(self, ports, wait_lost=lambda: None, *, wait_regained):
        for proxy in self.proxies:
            for port in ports:
                with self.subTest(proxy=proxy.name, port=port):
                    take_port(proxy, port, "down")
                    wait_lost()
                    self.wait_answers()
                    take_port(proxy, port, "up")
                    wait_regained()
        self.stop_load()
        self.assertLess(max(pinger.longest for pinger in self.pingers), seconds(GAP_SECONDS_MAX))
        self.assert_smcr()
        for proxy in self.proxies:
            self.assertEqual(proxy.metrics().value("fairlead_connections_reset_total"), 0, proxy.name)


class Links(LoadedPair):
    options = merge(TWO_PORTS, {"smc": {"test_link_interval": "1h"}})

    def test_connections_go_on_when_a_port_dies_and_use_it_when_it_returns(self):
        self.start_loaded_pair()
        self.lose_and_regain_each_port((1, 2), wait_regained=lambda: wait_symmetric(*self.proxies))
        for proxy in self.proxies:
            self.assertGreaterEqual(proxy.metrics().value("fairlead_connections_moved_total"), 1)
            self.assertIn("event=connections_moved", proxy.log())
            self.assertIn("event=link_added", proxy.log())
        self.wait_idle()

    def test_new_connections_come_about_beside_a_dead_port(self):
        self.start_loaded_pair()
        for port in (1, 2):
            take_port(self.inbound, port, "down")
            for size in (1, 70_000):
                self.assertEqual(peers.exchange(self.entry, bytes(size)), bytes(size))
            take_port(self.inbound, port, "up")
            wait_symmetric(self.outbound, self.inbound)
        self.stop_load()
        self.assert_smcr()

    def test_a_port_that_was_down_at_first_contact_is_used_when_it_comes_up(self):
        server = peers.serve(self, peers.echo)
        self.start_pair(server.address)
        for proxy in self.proxies:
            take_port(proxy, 2, "down")
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"?")
            for proxy in self.proxies:
                take_port(proxy, 2, "up")
            wait_symmetric(self.outbound, self.inbound)
        self.assert_smcr()

    def test_large_data_is_whole_when_ports_flap(self):
        self.start_loaded_pair()
        count = amount(300_000_000)
        with peers.connect(self.entry) as sock:
            # This created a link group if the two workers had none.
            peers.assert_echo(sock, b"?")
            wait_symmetric(self.outbound, self.inbound)
            receiver = peers.Task(peers.receive_exactly_digest, sock, count)
            sender = peers.Task(peers.send_random, sock, count, 7)
            turn = 0
            while sender.is_alive():
                proxy = self.proxies[turn % 2]
                take_port(proxy, 1 + turn // 2 % 2, "down")
                time.sleep(0.02)  # the outage
                take_port(proxy, 1 + turn // 2 % 2, "up")
                wait_symmetric(self.outbound, self.inbound)
                turn += 1
            self.assertEqual(receiver.finish(), sender.finish())
        self.stop_load()
        self.assertGreater(turn, 0)
        self.assert_smcr()

    def test_the_loss_of_all_ports_is_a_reset(self):
        self.start_loaded_pair()
        with peers.connect(self.entry) as sock:
            peers.assert_echo(sock, b"?")
            for pinger in self.pingers:
                pinger.finish()
            for port in (1, 2):
                take_port(self.inbound, port, "down")
            self.assertTrue(peers.ends_in_reset(sock))
        self.assertEqual(peers.exchange(self.entry, b"by TCP"), b"by TCP")


@unittest.skipIf(VARIANT == "version1", "a link group of version 1 has two links at most")
class ThreeLinks(LoadedPair):
    options = merge(THREE_PORTS, {"smc": {"test_link_interval": "1h"}})

    def test_one_of_three_links_is_lost_and_regained_at_each_port(self):
        self.start_loaded_pair()
        wait_links(3, self.outbound, self.inbound)
        self.lose_and_regain_each_port((1, 2, 3), lambda: wait_links(2, *self.proxies),
                                       wait_regained=lambda: wait_links(3, *self.proxies))
        self.wait_idle()

    def test_two_of_three_ports_are_lost_at_once(self):
        self.start_loaded_pair()
        wait_links(3, self.outbound, self.inbound)
        for port in (1, 3):
            take_port(self.inbound, port, "down")
        self.wait_answers()
        for port in (1, 3):
            take_port(self.inbound, port, "up")
        wait_links(3, self.outbound, self.inbound)
        self.stop_load()
        self.assert_smcr()


if __name__ == "__main__":
    main()
