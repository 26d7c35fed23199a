"""Goal: the first answer of a connection comes as fast beside connections that are held as without them, at any limit of
memory. Method: a network namespace of the test, in which the kernel counts what it drops from receive buffers. New
connections ask for more bytes than a small buffer has, beside others that have said something and are silent."""
import time

import own_network
import peers
from harness import SLOWNESS, ProxyTest, main
from kernel_counters import tcp_losses

ANSWER_BYTES = 100_000
NEW_CONNECTIONS = 10
# A retransmission timer of TCP takes 200 ms at least.
ANSWER_SECONDS_MAX = 0.15
# The kernel also collapses small segments in a small receive buffer (TCPRcvCollapsed). Nothing is late for that.
DROPPED = ("TCPRcvQDrop", "RcvPruned", "TCPTimeouts")
WAYS = {"frames": {}, "once": {"smc": {"defer_bytes": 0}}, "declined": {"smc": {"exclude": [{"cidr": "0.0.0.0/0"}]}},
        "tcp": {"smc": {"enabled": False}}}


def setUpModule():  # pylint: disable=invalid-name
    own_network.enter()


def dropped():
    """What the kernel has dropped or sent again in this network namespace."""
    return tcp_losses(DROPPED)


def answer(sock):
    while asked := sock.recv(16):
        sock.sendall(bytes(int(asked)))


class FirstAnswer(ProxyTest):
    def ask(self, sock, count):
        """The seconds until the whole answer has come."""
        began = time.monotonic()
        sock.sendall(b"%16d" % count)
        peers.receive_exactly(sock, count)
        return time.monotonic() - began

    def check(self, limit, held, way):
        options = {"memory": {"limit": limit}, **WAYS[way]}
        server = peers.serve(self, answer)
        self.start_pair(server.address, client=options, server=options)
        crowd = [peers.connect(self.entry) for _ in range(held)]
        for sock in crowd:
            self.addCleanup(sock.close)
            self.ask(sock, 100)
        before = dropped()
        slowest = 0.0
        for _ in range(NEW_CONNECTIONS):
            with peers.connect(self.entry) as sock:
                slowest = max(slowest, self.ask(sock, ANSWER_BYTES))
        self.assertEqual(dropped(), before, f"beside {held}")
        self.assertLess(slowest, ANSWER_SECONDS_MAX * SLOWNESS, f"beside {held}")
        for sock in crowd:
            sock.close()
        for proxy in self.proxies:
            self.assertIsNone(proxy.finish())
        self.proxies.clear()

    def check_all(self, way):
        for limit, crowds in (("32MiB", (0, 4, 10, 30)), ("512MiB", (0, 56, 120))):
            for held in crowds:
                with self.subTest(way=way, limit=limit, held=held):
                    self.check(limit, held, way)

    def test_in_frames(self):
        self.check_all("frames")

    def test_over_smcr_from_the_beginning(self):
        self.check_all("once")

    def test_of_a_peer_that_declines(self):
        self.check_all("declined")

    def test_over_tcp(self):
        self.check_all("tcp")


if __name__ == "__main__":
    main()
