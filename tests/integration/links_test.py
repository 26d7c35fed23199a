"""Groups of two and three links: a port fails under load, no byte is lost, and the link is added again."""
import random
import socket
import threading
import time
import unittest

import peers
from harness import VARIANT, ProxyTest, amount, main, merge, seconds, wait_until
from ports import THREE_PORTS, TWO_PORTS, take_port, wait_links, wait_symmetric

CONNECTIONS = 6
# Time limit for a connection to carry data again. It is shorter than every timer of the proxies, of which
# the shortest is set to a minute. So the event of the port must cause the recovery.
GAP_SECONDS_MAX = 5


class Pinger:
    """Sends requests and checks answers without a pause; records the longest round trip."""

    def __init__(self, address, seed):
        self.address, self.random = address, random.Random(seed)
        self.answers, self.longest = 0, 0.0
        self.stopping = threading.Event()
        self.task = peers.Task(self._run)

    def _run(self):
        with peers.connect(self.address) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            last = time.monotonic()
            while not self.stopping.is_set():
                message = self.random.randbytes(self.random.choice((1, 100, 4000, 30000)))
                sock.sendall(message)
                if peers.receive_exactly(sock, len(message)) != message:
                    raise AssertionError("another answer than was sent")
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now
                self.answers += 1

    def stop(self):
        self.stopping.set()
        self.task.finish()


class LoadedPair(ProxyTest):
    def start_loaded_pair(self):
        server = peers.Server(peers.echo)
        self.addCleanup(server.close)
        self.start_pair(server.address)
        self.pingers = [Pinger(self.entry, seed) for seed in range(CONNECTIONS)]
        wait_until(lambda: all(pinger.answers > 10 for pinger in self.pingers), "answers")
        wait_symmetric(self.outbound, self.inbound)

    def stop_load(self):
        for pinger in self.pingers:
            pinger.stop()


class Links(LoadedPair):
    options = merge(TWO_PORTS, {"smc": {"test_link_interval": "1h"}})

    def test_connections_go_on_when_a_port_dies_and_use_it_when_it_returns(self):
        self.start_loaded_pair()
        for proxy in (self.outbound, self.inbound):
            for port in (1, 2):
                with self.subTest(proxy=proxy.name, port=port):
                    before = [pinger.answers for pinger in self.pingers]
                    take_port(proxy, port, "down")
                    wait_until(lambda: all(pinger.answers > count + 20
                                           for pinger, count in zip(self.pingers, before)), "answers")
                    take_port(proxy, port, "up")
                    wait_symmetric(self.outbound, self.inbound)
        self.stop_load()
        self.assertLess(max(pinger.longest for pinger in self.pingers), seconds(GAP_SECONDS_MAX))
        self.assert_smcr()
        for proxy in self.proxies:
            self.assertEqual(proxy.metrics().value("fairlead_connections_reset_total"), 0, proxy.name)
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
        server = peers.Server(peers.echo)
        self.addCleanup(server.close)
        self.start_pair(server.address)
        for proxy in self.proxies:
            take_port(proxy, 2, "down")
        with peers.connect(self.entry) as sock:
            sock.sendall(b"?")
            self.assertEqual(peers.receive_exactly(sock, 1), b"?")
            for proxy in self.proxies:
                take_port(proxy, 2, "up")
            wait_symmetric(self.outbound, self.inbound)
        self.assert_smcr()

    def test_large_data_is_whole_when_ports_flap(self):
        self.start_loaded_pair()
        count = amount(300_000_000)
        with peers.connect(self.entry) as sock:
            # This created a link group if the two workers had none.
            sock.sendall(b"?")
            self.assertEqual(peers.receive_exactly(sock, 1), b"?")
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
            sock.sendall(b"?")
            self.assertEqual(sock.recv(1), b"?")
            for pinger in self.pingers:
                pinger.stop()
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
        for proxy in self.proxies:
            for port in (1, 2, 3):
                with self.subTest(proxy=proxy.name, port=port):
                    before = [pinger.answers for pinger in self.pingers]
                    take_port(proxy, port, "down")
                    wait_links(2, self.outbound, self.inbound)
                    wait_until(lambda: all(pinger.answers > count + 20
                                           for pinger, count in zip(self.pingers, before)), "answers")
                    take_port(proxy, port, "up")
                    wait_links(3, self.outbound, self.inbound)
        self.stop_load()
        self.assertLess(max(pinger.longest for pinger in self.pingers), seconds(GAP_SECONDS_MAX))
        self.assert_smcr()
        for proxy in self.proxies:
            self.assertEqual(proxy.metrics().value("fairlead_connections_reset_total"), 0, proxy.name)
        self.wait_idle()

    def test_two_of_three_ports_are_lost_at_once(self):
        self.start_loaded_pair()
        wait_links(3, self.outbound, self.inbound)
        for port in (1, 3):
            take_port(self.inbound, port, "down")
        before = [pinger.answers for pinger in self.pingers]
        wait_until(lambda: all(pinger.answers > count + 20
                               for pinger, count in zip(self.pingers, before)), "answers")
        for port in (1, 3):
            take_port(self.inbound, port, "up")
        wait_links(3, self.outbound, self.inbound)
        self.stop_load()
        self.assert_smcr()


if __name__ == "__main__":
    main()
