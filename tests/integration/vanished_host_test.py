"""Connections to a vanished host end in bounded time; connections to a host that does not read stay open.
The test drops the packets of chosen connections in its own network namespace."""
import shutil
import socket
import subprocess
import threading
import time
import unittest

import own_network
import peers
from harness import ProxyTest, main, wait_until

TABLE = "fairlead_vanished"
SHORT = {"tcp": {"keepalive_idle": "1s", "keepalive_interval": "1s", "keepalive_count": 2,
                 "user_timeout": "4s"}}
NO_KEEPALIVE = {"tcp": {**SHORT["tcp"], "keepalive_idle": "0s"}}
NO_USER_TIMEOUT = {"tcp": {**SHORT["tcp"], "user_timeout": "0s"}}
PLAIN = {"smc": {"enabled": False}}
# Much longer than SHORT, and much shorter than the two minutes for which Linux continues by itself.
SECONDS_MAX = 40


def nft(text):
    subprocess.run(["nft", "-f", "-"], input=text, check=True, capture_output=True, text=True)


def drop_port(port):
    nft(f"""table inet {TABLE} {{ chain in {{
        type filter hook input priority 0;
        tcp dport {port} drop
        tcp sport {port} drop
        }}
        }}""")


def heal():
    subprocess.run(["nft", "delete", "table", "inet", TABLE], check=False, capture_output=True)


class Vanished(ProxyTest):
    @classmethod
    def setUpClass(cls):
        if shutil.which("nft") is None:
            raise unittest.SkipTest("nft is not installed")
        own_network.enter()

    def setUp(self):
        super().setUp()
        self.addCleanup(heal)

    def vanish(self):
        drop_port(self.inbound.address("in")[1])

    def wait_vanished(self, proxy):
        wait_until(lambda: proxy.metrics().value("fairlead_peer_timeouts_total") == 1,
                   f"{proxy.name} to give its peer up", SECONDS_MAX)
        self.assertIn(" event=peer_vanished ", proxy.log())

    def check_end(self, options, unacknowledged):
        """The application sees a reset, and the connection is gone."""
        with peers.Server(peers.echo) as server:
            self.start_pair(server.address, {**PLAIN, **options}, PLAIN)
            with peers.connect(self.entry, timeout=SECONDS_MAX) as sock:
                peers.assert_echo(sock, b"hello")
                self.vanish()
                if unacknowledged:
                    sock.sendall(b"into the dark")
                self.assertTrue(peers.ends_in_reset(sock))
            self.wait_vanished(self.outbound)
            self.wait_idle(self.outbound)
            heal()

    def test_idle_connection_ends_by_keepalive(self):
        self.check_end(NO_USER_TIMEOUT, unacknowledged=False)

    def test_unacknowledged_data_ends_the_connection(self):
        self.check_end(NO_KEEPALIVE, unacknowledged=True)

    def test_inbound_side_ends_too(self):
        with peers.Server(peers.echo) as server:
            self.start_pair(server.address, PLAIN, {**PLAIN, **SHORT})
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, b"hello")
                self.vanish()
                self.wait_vanished(self.inbound)
                self.wait_idle(self.inbound)
                heal()

    def stall(self):
        """A pair whose remote application does not read, with all buffers on the path full."""
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def read_late(sock):
            go_on.wait()
            return len(peers.receive_all(sock))
        server = peers.serve(self, read_late)
        self.start_pair(server.address, {**PLAIN, **SHORT}, PLAIN)
        sock = peers.connect(self.entry)
        self.addCleanup(sock.close)
        sock.settimeout(3)
        sent = 0
        try:
            while True:
                sent += sock.send(bytes(65536))
        except TimeoutError:
            pass
        return sock, sent, server, go_on

    def test_peer_that_does_not_read_is_no_dead_one(self):
        sock, sent, server, go_on = self.stall()
        # The quantity under test is time: three times the timeout without a byte.
        time.sleep(12)
        self.assertEqual(self.outbound.metrics().value("fairlead_peer_timeouts_total"), 0)
        go_on.set()
        sock.settimeout(SECONDS_MAX)
        sock.shutdown(socket.SHUT_WR)
        wait_until(lambda: server.results() == [sent], "all bytes at the late reader", SECONDS_MAX)

    def test_stalled_peer_that_vanishes_is_found_out(self):
        self.stall()
        self.vanish()
        self.wait_vanished(self.outbound)
        heal()

    def test_smcr_goes_on_while_its_companion_times_out(self):
        with peers.Server(peers.echo) as server:
            self.start_pair(server.address, SHORT, SHORT)
            with peers.connect(self.entry) as sock:
                peers.assert_echo(sock, b"hello")
                self.vanish()

                def companion_gone():
                    found = subprocess.run(
                        ["ss", "-Htn", "state", "established", "dport", "=",
                         f":{self.inbound.address('in')[1]}"], capture_output=True, text=True, check=True)
                    return not found.stdout.strip()
                wait_until(companion_gone, "the end of the TCP connection below", SECONDS_MAX)
                for number in range(20):
                    peers.assert_echo(sock, str(number).encode())
            self.assert_smcr()
            self.wait_idle()
            for proxy in self.proxies:
                self.assertEqual(proxy.metrics().value("fairlead_connections_reset_total"), 0)
            heal()


if __name__ == "__main__":
    main()
