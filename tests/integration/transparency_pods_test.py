"""The rows of docs/transparency.md that need a wire between two hosts; the others are in transparency_test.py."""
import select
import socket

import peers
import pod_pair
from harness import main, seconds
from transparency import BLOCKED_MS, SOL, TCP, error_of, readable


class BetweenPods(pod_pair.Pods):
    """Rows that need a wire between two hosts."""

    def setUp(self):
        super().setUp()
        self.server = self.serve(pod_pair.SERVER, peers.echo)

    def connect(self, prepare):
        """A client in its pod that has received an answer."""
        with self.namespace(self.names[0]):
            sock = socket.socket()
        self.addCleanup(sock.close)
        prepare(sock)
        sock.settimeout(seconds(20))
        sock.connect(self.server.address)
        peers.assert_echo(sock, b"hello")
        return sock

    def put_proxies_in(self):
        self.redirect()
        self.start_pods()

    def test_host_that_vanishes(self):
        """Keepalive ends a direct connection. The connection to the sidecar continues, because the sidecar answers."""
        def probe(sock):
            sock.setsockopt(SOL, socket.SO_KEEPALIVE, 1)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT):
                sock.setsockopt(TCP, option, 1)
        direct = self.connect(probe)
        self.put_proxies_in()
        through = self.connect(probe)
        self.assert_carried()
        self.rules(self.names[0], """table inet cut { chain out {
            type filter hook output priority 0;
            oifname "wire" drop
            }
            }""")
        self.assertIn(error_of(lambda: direct.recv(1)), ("ETIMEDOUT", "ECONNRESET"))
        self.assertFalse(readable(through, 0))

    def test_socket_bound_to_a_device(self):
        """SO_BINDTODEVICE before connect(): the way to the sidecar leads through the device lo."""
        def bind(sock):
            sock.setsockopt(SOL, socket.SO_BINDTODEVICE, b"wire\0")
        self.connect(bind)
        self.put_proxies_in()
        self.connect(lambda sock: None)
        self.assert_carried()
        with self.namespace(self.names[0]):
            sock = socket.socket()
        with sock:
            bind(sock)
            sock.setblocking(False)
            sock.connect_ex(self.server.address)
            self.assertEqual(select.select([], [sock], [], BLOCKED_MS / 1000)[1], [])


if __name__ == "__main__":
    main()
