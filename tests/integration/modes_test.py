"""Other ways in: IPv6, netfilter's REDIRECT and TPROXY in network namespaces, and several workers."""
import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import unittest

import peers
from harness import ProxyTest, listener, main, wait_until

CLIENT, SERVER = "10.77.1.2", "10.77.2.2"
CLIENT6, SERVER6 = "fd77:1::2", "fd77:2::2"


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


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


class Pods(ProxyTest):
    """Two network namespaces with a wire between them, as pods have."""

    def setUp(self):
        super().setUp()
        for program in ("ip", "nft", "nsenter"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"{program} is not installed")
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root to make network namespaces")
        self.names = [f"fl{side}{os.getpid()}" for side in "cs"]
        try:
            self.make_pods()
        except subprocess.CalledProcessError as error:
            raise unittest.SkipTest(f"{error.cmd}: {error.stderr.strip()}") from None

    def make_pods(self):
        for name in self.names:
            run("ip", "netns", "add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], check=False,
                            capture_output=True)
            self.inside(name, "ip", "link", "set", "lo", "up")
        client, server = self.names
        run("ip", "link", "add", "wire", "netns", client, "type", "veth", "peer", "name", "wire",
            "netns", server)
        for name, address, address6, other, other6 in (
                (client, CLIENT, CLIENT6, SERVER, SERVER6), (server, SERVER, SERVER6, CLIENT, CLIENT6)):
            self.inside(name, "ip", "address", "add", f"{address}/24", "dev", "wire")
            self.inside(name, "ip", "address", "add", f"{address6}/64", "dev", "wire", "nodad")
            self.inside(name, "ip", "link", "set", "wire", "up")
            self.inside(name, "ip", "route", "add", f"{other}/32", "dev", "wire")
            self.inside(name, "ip", "route", "add", f"{other6}/128", "dev", "wire")

    def inside(self, name, *command):
        run("ip", "netns", "exec", name, *command)

    def rules(self, name, text):
        path = self.folder / f"{name}.nft"
        path.write_text(text)
        self.inside(name, "nft", "-f", path)

    @contextlib.contextmanager
    def namespace(self, name):
        """What this thread makes inside belongs to the namespace."""
        with open("/proc/thread-self/ns/net", encoding="ascii") as home, \
                open(f"/run/netns/{name}", encoding="ascii") as there:
            enter(there)
            try:
                yield
            finally:
                enter(home)

    def serve(self, host):
        with self.namespace(self.names[1]):
            server = peers.Server(peers.echo_at_end, host=host)
        self.addCleanup(server.close)
        return server

    def start_in(self, name, *arguments, **how):
        """The admin port of a proxy in a pod is reached from inside it."""
        wrapper = ["nsenter", f"--net=/run/netns/{name}", "--setgid", "2201"]
        proxy = self.start(*arguments, wrapper=wrapper, **how)
        outside = proxy.get

        def get(path):
            with self.namespace(name):
                return outside(path)
        proxy.get = get
        return proxy

    def start_pods(self, mode, listen="0.0.0.0"):
        client, server = self.names
        self.inbound = self.start_in(
            server, "in", [listener("in", "inbound", listen=f"{listen}:4543", mode=mode)])
        self.outbound = self.start_in(
            client, "out", [listener("out", "outbound", listen=f"{listen}:4540", mode=mode)])

    def redirect(self):
        # The proxy's own connections carry its group, so they do not come round again.
        client, server = self.names
        self.rules(client, """table inet fairlead { chain out {
            type nat hook output priority -100;
            meta l4proto tcp meta skgid != 2201 ip daddr 10.77.2.2 redirect to :4540
            meta l4proto tcp meta skgid != 2201 ip6 daddr fd77:2::2 redirect to :4540
            }
            }""")
        self.rules(server, """table inet fairlead { chain in {
            type nat hook prerouting priority -100;
            iifname "wire" meta l4proto tcp redirect to :4543
            }
            }""")

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
        self.start_pods("redirect")
        server = self.serve(SERVER)
        self.talk(server.address)
        self.assert_smcr()
        decision = self.outbound.get_json("/why")["decisions"][0]
        self.assertEqual(decision["peer"], f"{SERVER}:{server.address[1]}")

    def test_redirect_over_ipv6(self):
        self.redirect()
        self.start_pods("redirect", listen="[::]")
        self.talk(self.serve(SERVER6).address)
        self.assert_smcr()

    def test_closed_port_behind_a_redirect(self):
        self.redirect()
        self.start_pods("redirect")
        with self.namespace(self.names[0]):
            self.assertTrue(peers.meets_reset((SERVER, 9)))
        self.wait_idle()

    def test_connection_to_the_redirect_port_itself_is_refused(self):
        """It would go round for ever."""
        self.start_pods("redirect")
        with self.namespace(self.names[0]):
            self.assertTrue(peers.meets_reset((CLIENT, 4540)))
        wait_until(lambda: self.outbound.metrics().value("fairlead_connections_refused_total") == 1,
                   "the refusal")
        self.assertIn("redirect_missing", self.outbound.log())

    def test_tproxy(self):
        """Inbound, the destination stays on the packet; outbound is redirected."""
        client, server = self.names
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
        self.inbound = self.start_in(
            server, "in", [listener("in", "inbound", listen="0.0.0.0:4543", mode="tproxy")])
        self.outbound = self.start_in(
            client, "out", [listener("out", "outbound", listen="0.0.0.0:4540", mode="redirect")])
        self.talk(self.serve(SERVER).address)
        self.assert_smcr()


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


if __name__ == "__main__":
    main()
