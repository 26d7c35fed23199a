"""The loopback of a network namespace, on which every connection passes two proxies, or none.

nftables redirects the applications' connections to the outbound proxy, and its connections to the inbound proxy. It
does not redirect those of the inbound proxy. The group of a process distinguishes the three. So a suite needs no
change: it starts its servers on any port and connects to them as usual. Belongs to one thread; its network namespace
must not be shared with others.
"""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[1:1] = [str(Path(__file__).parents[1] / "integration"), str(Path(__file__).parents[1])]

from harness import Proxy, listener, programs  # pylint: disable=wrong-import-position,unused-import
from node_broker import NodeBroker  # pylint: disable=wrong-import-position

OUTBOUND_GROUP, INBOUND_GROUP = 2201, 2202
OUTBOUND_PORT, INBOUND_PORT = 4540, 4543
EPHEMERAL_PORTS = "50000 65535"
CLONE_NEWNET = 0x40000000
# Ways to carry a suite. "earned": frames first, then SMC-R, as by default; "smcr": from the first byte.
TRANSPORTS = ("direct", "earned", "smcr", "tcp")
COUNTED = ("smcr", "tcp", "short")
CARRIED_BY = {"earned": ("smcr", "short"), "smcr": ("smcr",), "tcp": ("tcp",)}

RULES = f"""table inet fairlead {{ chain out {{
    type nat hook output priority -100;
    meta skgid {INBOUND_GROUP} return
    meta l4proto tcp ip daddr 127.0.0.1 meta skgid {OUTBOUND_GROUP} redirect to :{INBOUND_PORT}
    meta l4proto tcp ip6 daddr ::1 meta skgid {OUTBOUND_GROUP} redirect to :{INBOUND_PORT}
    meta l4proto tcp ip daddr 127.0.0.1 redirect to :{OUTBOUND_PORT}
    meta l4proto tcp ip6 daddr ::1 redirect to :{OUTBOUND_PORT}
    }}
}}
"""


def reasons_against():
    """The reason why no place can be created here, or None."""
    if os.geteuid() != 0:
        return "needs root for a network namespace and for redirection"
    for name in ("ip", "nft", "unshare", "setpriv"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    if not (programs() / "fairlead-proxy").exists():
        return f"there is no proxy in {programs()}"
    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        return "no network namespace can be made"
    return None


def enter_namespace():
    """Gives this process, and all processes that it starts from now on, a separate network namespace."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Servers of the suites listen on ports below. A closed client's connection on such a port (TIME_WAIT) would
    # make their bind(2) fail, and some of them then listen on one address family only.
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(EPHEMERAL_PORTS)
    # Entries of closed connections leave the conntrack table early: suites make many thousands.
    quick = Path("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait")
    if quick.exists():
        quick.write_text("5")


class Carried:
    """Connections that the proxies have carried since the given counts."""

    def __init__(self, counts):
        self.counts = counts

    def since(self, earlier):
        return Carried({name: value - earlier.counts.get(name, 0) for name, value in self.counts.items()})

    def wrong(self, transport):
        """The reason why this transport cannot have carried a suite with these counts, or None."""
        wanted = CARRIED_BY[transport]
        for proxy in ("out", "in"):
            if sum(self.counts[proxy, name] for name in wanted) < 1 or self.counts[proxy, "bytes"] < 1:
                return f"no connection of the proxy {proxy!r} moved bytes over {transport}: {self.counts}"
            for other in COUNTED:
                if other not in wanted and self.counts[proxy, other] > 0:
                    return f"the proxy {proxy!r} carried connections over {other}: {self.counts}"
        return None


class Place:
    """Two proxies, started and ended by `with`; for "direct" there are none, and no redirection."""

    # Some suites open thousands of connections, and all of them have to use the same transport.
    def __init__(self, transport, memory="4GiB"):
        self.transport, self.memory = transport, memory
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-suite-"))
        os.chmod(self.folder, 0o755)
        self.broker = None
        self.proxies = []
        self.problems = []

    def _start(self, name, direction, group, port):
        listeners = [listener(f"{name}4", direction, listen=f"127.0.0.1:{port}", mode="redirect"),
                     listener(f"{name}6", direction, listen=f"[::1]:{port}", mode="redirect")]
        config = {"concurrency": 1, "listeners": listeners,
                  **self.broker.settings(),
                  "admin": {"listen": "", "socket": str(self.folder / f"{name}.sock")}, "drain": {"timeout": "2s"},
                  # Their timers must not expire because other programs use the processors.
                  "smc": {"enabled": self.transport != "tcp", "handshake_timeout": "60s",
                          **({"defer_bytes": 0} if self.transport == "smcr" else {})},
                  "limits": {"dial_timeout": "60s"},
                  "memory": {"limit": self.memory}}
        proxy = Proxy(self.folder, name, config,
                      wrapper=["setpriv", "--regid", str(group), "--clear-groups", "--"])
        self.proxies.append(proxy)
        proxy.wait_ready()
        if self.transport != "tcp":
            proxy.wait_broker()

    def __enter__(self):
        if self.transport != "direct":
            self.broker = NodeBroker()
            try:
                self._start("in", "inbound", INBOUND_GROUP, INBOUND_PORT)
                self._start("out", "outbound", OUTBOUND_GROUP, OUTBOUND_PORT)
                subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
            except BaseException:
                self._end()
                raise
        return self

    def _end(self):
        subprocess.run(["nft", "delete", "table", "inet", "fairlead"], capture_output=True, check=False)
        self.problems = [problem for proxy in reversed(self.proxies) if (problem := proxy.finish())]
        if self.broker is not None and (problem := self.broker.finish()):
            self.problems.append(problem)
        for proxy in self.proxies if self.problems else []:
            print(f"--- log of {proxy.name}\n{proxy.log()[-8000:]}", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(self, *_):
        self._end()

    def carried(self):
        """The current counts. A connection is counted under its transport once that is decided."""
        counts = {}
        for proxy in self.proxies:
            metrics = proxy.metrics()
            for transport in COUNTED:
                counts[proxy.name, transport] = int(metrics.connections(transport))
            counts[proxy.name, "bytes"] = int(metrics.value("fairlead_bytes_total"))
            for (reason, side), count in metrics.fallbacks().items():
                counts[proxy.name, f"fallback {reason} ({side})"] = count
        return Carried(counts)
