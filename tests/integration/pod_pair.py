"""Two connected network namespaces, like those of pods, with redirection to proxies."""
import contextlib
import ctypes
import os
import shutil
import subprocess
import unittest

import peers
from harness import ProxyTest, listener, wait_until

CLIENT, SERVER = "10.77.1.2", "10.77.2.2"
CLIENT6, SERVER6 = "fd77:1::2", "fd77:2::2"


def run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


def is_local(namespace, address):
    """Whether the namespace takes packets to the address: Linux makes an IPv6 address local some time after
    `ip address add` has ended."""
    family = "-6" if ":" in address else "-4"
    route = subprocess.run(["ip", "-n", namespace, family, "route", "get", address], check=False,
                           capture_output=True, text=True)
    return route.stdout.startswith("local ")


class Pods(ProxyTest):
    """A test in two pods; skipped with the reason if they cannot be created."""

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
        for name, address6 in ((client, CLIENT6), (server, SERVER6)):
            wait_until(lambda name=name, address6=address6: is_local(name, address6),
                       f"{address6} in {name}")

    def inside(self, name, *command):
        run("ip", "netns", "exec", name, *command)

    def rules(self, name, text):
        path = self.folder / f"{name}.nft"
        path.write_text(text)
        self.inside(name, "nft", "-f", path)

    @contextlib.contextmanager
    def namespace(self, name):
        """Objects that this thread creates in this block belong to the namespace."""
        with open("/proc/thread-self/ns/net", encoding="ascii") as home, \
                open(f"/run/netns/{name}", encoding="ascii") as there:
            enter(there)
            try:
                yield
            finally:
                enter(home)

    def serve(self, host, handle=peers.echo_at_end):
        with self.namespace(self.names[1]):
            return peers.serve(self, handle, host=host)

    def start_in(self, name, *arguments, **how):
        wrapper = ["nsenter", f"--net=/run/netns/{name}", "--setgid", "2201"]
        return self.start(*arguments, wrapper=wrapper, **how)

    def start_server_proxy(self, mode, listen="0.0.0.0", **how):
        self.inbound = self.start_in(
            self.names[1], "in", [listener("in", "inbound", listen=f"{listen}:4543", mode=mode)], **how)

    def start_client_proxy(self, listen="0.0.0.0", **how):
        self.outbound = self.start_in(
            self.names[0], "out", [listener("out", "outbound", listen=f"{listen}:4540", mode="redirect")], **how)

    def start_pods(self, listen="0.0.0.0", **how):
        self.start_server_proxy("redirect", listen, **how)
        self.start_client_proxy(listen, **how)

    def redirect(self):
        self.redirect_of_client()
        self.redirect_of_server()

    def redirect_of_client(self):
        # The proxy's own connections have its group, so they are not redirected again.
        self.rules(self.names[0], """table inet fairlead { chain out {
            type nat hook output priority -100;
            meta l4proto tcp meta skgid != 2201 ip daddr 10.77.2.2 redirect to :4540
            meta l4proto tcp meta skgid != 2201 ip6 daddr fd77:2::2 redirect to :4540
            }
            }""")

    def redirect_of_server(self):
        self.rules(self.names[1], """table inet fairlead { chain in {
            type nat hook prerouting priority -100;
            iifname "wire" meta l4proto tcp redirect to :4543
            }
            }""")


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
