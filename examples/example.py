"""What all examples have in common: two pods, three ways between them, interleaved rounds, the table and the last lines.

The pods are those of the demonstration, with connections of both directions redirected in both. Each way uses the same
addresses; only the packet filter changes: nothing is redirected, or the known ports to HAProxy, or all to Fairlead.
"""
import argparse
import json
import os
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(1, str(ROOT / "scripts"))

# pylint: disable=wrong-import-position
from demo_comparison import DIRECT, FAIRLEAD, HAPROXY, haproxy_config, table
from demo_pods import PodNetwork, Unavailable
from demo_proxy import Proxy
from demo_run import perform
from demo_scene import Scene, expect, missing, say, wait_for

WAYS = (DIRECT, HAPROXY, FAIRLEAD)
TRANSPORTS = ("smcr", "tcp", "short")
ROUNDS = 3
SECONDS_MAX = 300  # most of it is for a machine that others use
PAR = 0.9  # a smaller share of the speed of another way counts as slower; the rest may be noise
MIB = 1 << 20
HAPROXY_UID = 2202
HAPROXY_OUT, HAPROXY_IN = 10000, 20000  # its ports in both pods are the application's plus this


class Stage(PodNetwork):
    """Two pods with a Fairlead and an HAProxy each. `ports`: what listens in each pod, for HAProxy."""

    def __init__(self, scene, build, ports):
        if os.geteuid() != 0:
            raise Unavailable("needs root for network namespaces and for redirection")
        super().__init__(scene, build / "proxy/fairlead-proxy")
        self.ports = ports
        self.way, self.before = DIRECT, 0
        self.proxies = {pod: Proxy(scene, pod, build / "proxy/ctl/fairleadctl") for pod in self.addresses}
        for proxy in self.proxies.values():
            self.start_proxy(proxy)
            status, finding = proxy.fact("client_address")
            if status != "ok":
                raise Unavailable(f"the server cannot see the client's address here: {finding}")
        for pod in self.addresses:
            self.start_haproxy(pod)

    def peer(self, pod):
        return next(other for other in self.addresses if other != pod)

    def start_haproxy(self, pod):
        """For each port, HAProxy of the client's pod connects to that of the server's pod, and that to the application."""
        here, there = self.addresses[pod], self.addresses[self.peer(pod)]
        hops = [(f"in-{port}", (here, port + HAPROXY_IN), (here, port)) for port in self.ports.get(pod, ())]
        hops += [(f"out-{port}", ("127.0.0.1", port + HAPROXY_OUT), (there, port + HAPROXY_IN))
                 for port in self.ports.get(self.peer(pod), ())]
        config = self.scene.write(f"haproxy-{pod}.cfg", haproxy_config(hops))
        self.start_as(HAPROXY_UID, f"haproxy-{pod}", pod, ["haproxy", "-db", "-f", config])
        wait_for("HAProxy to start", lambda: all(self.listens(pod, port) for _, (_, port), _ in hops))

    def listens(self, pod, port):
        """Whether a program listens on the port in this pod."""
        return bool(self.scene.run(self.inside(pod, ["ss", "-Hltn", f"sport = :{port}"])))

    def start_as(self, user, name, pod, command, **options):
        """Starts a program in a pod as the user of that number."""
        return self.scene.start(name, self.inside(pod, [
            "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]), **options)

    def use(self, way):
        """New connections go this way from now on."""
        self.way, self.before = way, self.counts()["connections"]
        if way == FAIRLEAD:
            self.redirect()
            return
        for pod in self.addresses:
            there = self.peer(pod)
            rules = [f"meta skuid {HAPROXY_UID} return"]
            rules += [f"ip daddr {self.addresses[there]} tcp dport {port} counter redirect to :{port + HAPROXY_OUT}"
                      for port in self.ports.get(there, ())]
            self.filter(pod, "output", "\n".join(rules) if way == HAPROXY else "")
            self.filter(pod, "prerouting")

    def expect_used(self):
        """Checks that connections went this way since use(), as far as this can be seen."""
        taken = self.counts()["connections"] - self.before
        if self.way == FAIRLEAD:
            expect(taken > 0, "no connection went through Fairlead")
            return
        expect(taken == 0, f"{self.way}: {taken} connections went through Fairlead")
        redirected = sum(int(packets) for pod in self.addresses for packets in re.findall(
            r"counter packets (\d+)", self.scene.run(self.inside(pod, ["nft", "list", "chain", "inet", "fairlead", "output"]))))
        expect((redirected > 0) == (self.way == HAPROXY), f"{self.way}: {redirected} connections were redirected to HAProxy")

    def counts(self):
        """What `fairleadctl stats` says of connections from applications, summed over both proxies."""
        return summed([json.loads(self.scene.run([*proxy.ctl_command, "-o", "json", "stats"]))
                       for proxy in self.proxies.values()])


def summed(reports):
    """{transport: connections, "connections": all of them, "smcr_bytes": bytes over SMC-R} of connections from
    applications. A short connection has its transport when it ends, but is one of them as soon as it begins."""
    outbound = [report["total"]["connections"]["outbound"] for report in reports]
    total = {name: sum(each[name]["total"] for each in outbound) for name in TRANSPORTS}
    total["connections"] = sum(total.values()) + sum(each["short"]["active"] for each in outbound)
    total["smcr_bytes"] = sum(each["smcr"][way] for each in outbound for way in ("tx_bytes", "rx_bytes"))
    return total


class Example:
    """One example. Subclasses define what runs and what is measured."""
    name = ""
    title = ""
    programs = ()  # that must be installed
    ports = {}     # {pod: ports on which its applications listen}
    work = {}      # {name of a row: the work that the row stands for, in words}
    shown = ""     # what show() shows

    def __init__(self, arguments):
        absent = missing(["haproxy", "curl", *self.programs])
        if absent:
            raise Unavailable(f"not installed: {' '.join(absent)}; scripts/bootstrap.sh examples installs all packages")
        self.check_means()
        self.short, self.rounds = arguments.short, 1 if arguments.short else ROUNDS
        self.scene = Scene(f"fairlead-example-{self.name}-")
        try:
            self.stage = Stage(self.scene, arguments.build, self.ports)
        except BaseException:
            self.scene.close()
            raise

    def check_means(self):
        """Raises Unavailable if something else is missing."""

    def start(self):
        """Starts the applications; returns once they answer."""
        raise NotImplementedError

    def show(self):
        """Prints what there is to see beside speed, and checks it."""
        raise NotImplementedError

    def show_addresses(self, seen):
        """Shows the client's address that the server sees on each way, which `seen()` returns, and checks it."""
        addresses = self.stage.addresses
        for way in WAYS:
            self.stage.use(way)
            address = seen()
            self.stage.expect_used()
            whose = next((pod for pod, own in addresses.items() if own == address), "nobody")
            say(f"{way:9} {address}, the address of the {whose}'s pod")
            expected = addresses["server" if way == HAPROXY else "client"]
            expect(address == expected, f"{way}: the server sees {address} instead of {expected}")

    def measure(self, way):
        """One round: [(name, unit, rate)]. Raises Failure if a result is wrong."""
        raise NotImplementedError

    def check(self):
        """Checks what must hold after all rounds; returns it as a sentence."""
        raise NotImplementedError

    def amount(self, full):
        return max(1, full // 10) if self.short else full

    def show_logs(self):
        for log in sorted(self.scene.directory.glob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-5:]
            say("\n".join([f"\nlast words of {log.stem}:", *lines]))

    def measure_rounds(self):
        """{way: [rows of a round, …]}; another way is first in each round."""
        rounds = {way: [] for way in WAYS}
        for number in range(self.rounds):
            first = number % len(WAYS)
            for way in WAYS[first:] + WAYS[:first]:
                print(f"round {number + 1} of {self.rounds}: {way}", file=sys.stderr, flush=True)
                self.stage.use(way)
                rounds[way].append(self.measure(way))
        return rounds


def medians(rounds):
    """[(name, unit, rate)] of one way: the median of its rounds, row by row."""
    return [(*rows[0][:2], statistics.median(rate for _, _, rate in rows)) for rows in zip(*rounds, strict=True)]


def spread(rounds):
    """The largest distance of two rounds of one row, as a share of their median; 0 for one round. `rounds`: of all ways."""
    rates = [[rate for _, _, rate in rows] for each in rounds.values() for rows in zip(*each, strict=True)]
    return max((max(each) - min(each)) / statistics.median(each) for each in rates)


def listed(words, last):
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def advice(results, work):
    """One sentence: when not to use Fairlead, from the shares of direct TCP and of HAProxy in the table."""
    rates = {way: {name: rate for name, _, rate in rows} for way, rows in results.items()}
    shares = {way: {name: rates[FAIRLEAD][name] / rate for name, rate in rates[way].items()} for way in (DIRECT, HAPROXY)}
    slower = [name for name, share in shares[DIRECT].items() if share < PAR]
    if not slower:
        return "Not worth it for speed alone: no row is slower than direct TCP, but each pod needs a proxy."
    parts = listed([f"{work[name]} ({shares[DIRECT][name]:.2f} of direct TCP)" for name in slower], "or")
    below = [work[name] for name in shares[HAPROXY] if shares[HAPROXY][name] < PAR]
    end = f"; HAProxy is faster for {listed(below, 'and')}." if below else "."
    return f"Not worth it on one node where most of the work is {parts}{end}"


def play(example):
    stage = example.stage
    say(f"{example.title}: two network namespaces as pods, connections are redirected to the proxies.")
    say("\n[1/4] The programs start, and answer")
    example.start()
    say(f"\n[2/4] {example.shown}\n")
    example.show()
    say("\n[3/4] The same load in interleaved rounds: no proxy, an HAProxy in each pod, a Fairlead in each pod")
    rounds = example.measure_rounds()
    say("\n[4/4] Medians of the rounds\n")
    results = {way: medians(each) for way, each in rounds.items()}
    say("\n".join(table(results)))
    say("\nOne round with a tenth of the load: a test, no evidence." if example.short else
        f"\nTwo rounds of one row differ by at most {100 * spread(rounds):.0f} % of their median.")
    say(example.check())
    counts = stage.counts()
    say(f"SMC-R carried {counts['smcr']} of the {counts['connections']} connections through Fairlead, and "
        f"{counts['smcr_bytes'] / MIB:,.0f} MiB; {counts['short']} ended before they earned it, {counts['tcp']} stayed TCP "
        "(fairleadctl stats).")
    expect(counts["smcr"] > 0, "no connection was SMC-R")
    fallbacks = sum(proxy.total("fallback_total") for proxy in stage.proxies.values())
    expect(fallbacks == 0, f"{fallbacks} connections could not be SMC-R")
    return f"smcr_connections={counts['smcr']} bytes={counts['smcr_bytes']}\n{advice(results, example.work)}"


def main(kind):
    parser = argparse.ArgumentParser(description=f"{kind.title}, without proxies, with HAProxy and with Fairlead.")
    parser.add_argument("--seconds", type=int, default=SECONDS_MAX, help="the longest it may take")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--short", action="store_true", help="one round with a tenth of the load: for tests, no evidence")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    return perform(f"example {kind.name}", arguments.seconds, lambda: kind(arguments), play)
