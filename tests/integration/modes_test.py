"""Other listener modes: IPv6, netfilter's REDIRECT and TPROXY in network namespaces, and several workers."""
import socket
import subprocess
import unittest

import peers
from harness import ProxyTest, listener, main, wait_until
from pod_pair import CLIENT, SERVER, SERVER6, Pods


class Ipv6(ProxyTest):
    def test_both_legs_over_ipv6(self):
        try:
            server = peers.Server(peers.echo_at_end, host="::1")
        except OSError as error:
            raise unittest.SkipTest(f"no IPv6 here: {error}") from None
        with server:
            self.inbound = self.start(
                "in", [listener("in", "inbound", server.address, listen="[::1]:0")])
            self.outbound = self.start(
                "out", [listener("out", "outbound", self.inbound.address("in"), listen="[::1]:0")])
            message = bytes(1_000_000)
            self.assertEqual(peers.exchange(self.outbound.address("out"), message), message)
            self.assert_smcr()
            row = self.outbound.get_json("/why")["decisions"][0]
            self.assertTrue(row["peer"].startswith("[::1]:"), row)


class Workers(ProxyTest):
    options = {"concurrency": 2}

    def test_connections_spread_over_workers(self):
        with peers.Server(peers.echo_at_end) as server:
            self.start_pair(server.address)
            for number in range(60):
                message = str(number).encode() * 100
                self.assertEqual(peers.exchange(self.entry, message), message)
            self.assert_smcr(at_least=60)
            for proxy in self.proxies:
                groups = proxy.get_json("/linkgroups")["link_groups"]
                self.assertEqual({group["worker"] for group in groups}, {0, 1}, proxy.name)
            self.wait_idle()


class Redirection(Pods):
    def talk(self, address):
        with self.namespace(self.names[0]):
            sock = peers.connect(address)
        with sock:
            message = bytes(range(256)) * 4000
            sock.sendall(message)
            sock.shutdown(socket.SHUT_WR)
            self.assertEqual(peers.receive_all(sock), message)

    def test_redirect(self):
        self.redirect()
        self.start_pods()
        server = self.serve(SERVER)
        self.talk(server.address)
        self.assert_smcr()
        decision = self.outbound.get_json("/why")["decisions"][0]
        self.assertEqual(decision["peer"], f"{SERVER}:{server.address[1]}")

    def test_redirect_over_ipv6(self):
        self.redirect()
        self.start_pods(listen="[::]")
        self.talk(self.serve(SERVER6).address)
        self.assert_smcr()

    def test_closed_port_behind_a_redirect(self):
        self.redirect()
        self.start_pods()
        with self.namespace(self.names[0]):
            self.assertTrue(peers.meets_reset((SERVER, 9)))
        self.wait_idle()

    def test_connection_to_the_redirect_port_itself_is_refused(self):
        """The connection would loop without end."""
        self.start_pods()
        with self.namespace(self.names[0]):
            self.assertTrue(peers.meets_reset((CLIENT, 4540)))
        wait_until(lambda: self.outbound.metrics().value("fairlead_connections_refused_total") == 1,
                   "the refusal")
        # The line follows the count.
        wait_until(lambda: "redirect_missing" in self.outbound.log(), "the line of the refusal")

    def test_tproxy(self):
        """Inbound, the destination stays on the packet; outbound is redirected."""
        server = self.names[1]
        self.redirect()
        self.inside(server, "nft", "delete", "table", "inet", "fairlead")
        try:
            self.rules(server, """table inet fairlead { chain in {
                type filter hook prerouting priority mangle;
                iifname "wire" meta l4proto tcp tproxy to :4543 meta mark set 1 accept
                }
            }""")
            self.inside(server, "ip", "rule", "add", "fwmark", "1", "lookup", "100")
            self.inside(server, "ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table",
                        "100")
        except subprocess.CalledProcessError as error:
            raise unittest.SkipTest(f"no TPROXY in this kernel: {error.stderr.strip()}") from None
        self.start_server_proxy("tproxy")
        self.start_client_proxy()
        self.talk(self.serve(SERVER).address)
        self.assert_smcr()


if __name__ == "__main__":
    main()
