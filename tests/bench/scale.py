#!/usr/bin/env python3
"""Measures the growth of one pair of proxies with connections, link groups, peers and time.

Two pods on one host, a proxy beside each, as in bench.py. Needs root.

  scale.py                  what `make scale` runs; the report is build/bench/scale.json
  scale.py --quick          few steps and short samples: a first look, no evidence
  scale.py --only peers     one part of: connections, short, active, clients, churn, failover, peers

Connections over SMC-R are so from their beginning (`smc.defer_bytes: 0`); those of `short` and `churn` have the
default settings, by which they have to earn it.

Prints a table a part, and draws build/bench/scale.svg where matplotlib is installed.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass

import processes
import report as bench_report
import scale_report
from pods import CONNECTIONS_MAX
from scale_cluster import AT_ONCE, CROWDED, ROOT, SETTINGS, Proxies, add_arguments, running
from scale_failover import failover

SETTLE_SECONDS = 1.0   # before memory is read: late acknowledgements, timers of the set-up
CHURN_SLICE_SECONDS = 10
SEND_BYTES = 131072
DIRECT = "direct TCP"


@dataclass(frozen=True)
class Plan:
    """Steps of each part, for evidence or for a first look."""
    connections: tuple
    active: tuple
    repetitions: int
    seconds: float        # of a bulk sample
    requests: int         # of a sample with redis
    idle_seconds: float   # over which CPU is read
    churn_seconds: int
    kills: int            # of ports, at each side
    peers: tuple


PLANS = {
    False: Plan((255, 510, 1020, 2040, 3060, 4080, 5100, 6120, 7140, 8160, 9000, 9700), (8, 100, 1000),
                3, 2.0, 40000, 3.0, 120, 25, (1, 25, 50)),
    True: Plan((100, 300, 600), (8, 64), 1, 0.4, 5000, 0.5, 2 * CHURN_SLICE_SECONDS, 2, (1, 4, 8)),
}
PARTS = ("connections", "short", "active", "clients", "churn", "failover", "peers")


class Scale:
    def __init__(self, cluster, plan):
        self.cluster, self.plan = cluster, plan

    def idle_cpu_percent(self, sidecars):
        before, start = processes.on_cpu(sidecars)[0], time.monotonic()
        time.sleep(self.plan.idle_seconds)
        return (processes.on_cpu(sidecars)[0] - before) / (time.monotonic() - start) * 100

    def connections(self):
        self.cluster.settings = AT_ONCE
        return self.idle("connections")

    def short(self):
        self.cluster.settings = SETTINGS
        return self.idle("short")

    def idle(self, name):
        proxies = self.cluster.start_proxies(name)
        time.sleep(SETTLE_SECONDS)
        base_kb = processes.proportional_kb(proxies.all())
        rows, clients, held = [], [], 0
        for wanted in self.plan.connections:
            count = min(wanted, CONNECTIONS_MAX) - held
            if count <= 0:
                break
            client, opened = self.cluster.hold(proxies.ports[0], count)
            clients.append(client)
            held += count
            time.sleep(SETTLE_SECONDS)
            groups = self.cluster.groups(proxies.inbound_admin)
            carried = sum(group["connections"] for group in groups)
            rows.append({
                "connections": held, "groups": len(groups), "over_smc": carried,
                "setups_per_s": count / opened["open_secs"],
                "kib_per_connection": (processes.proportional_kb(proxies.all()) - base_kb) / held,
                "idle_cpu_percent": self.idle_cpu_percent(proxies.all())})
            progress(f"{name}: {held} connections in {len(groups)} groups")
        alive = self.cluster.release(clients)
        if alive != held:
            raise RuntimeError(f"of {held} connections {alive} lived to the end")
        self.cluster.stop(proxies)
        return rows

    def active(self):
        def measure(host, port, count):
            return self.cluster.measure(f"{count} streams", port, "bulk", count, self.plan.seconds, SEND_BYTES,
                                        host=host)["gbytes_per_s"]
        self.cluster.settings = AT_ONCE
        proxies = self.cluster.start_proxies("active")
        return self.beside_direct(proxies, self.cluster.app_port, measure)

    def clients(self):
        """Requests and responses, the usual traffic of a service."""
        def measure(host, port, count):
            output, complaint = self.cluster.redis(port, count, self.plan.requests, host)
            if output is None:
                raise RuntimeError(f"{count} clients: {complaint}")
            return float(output.splitlines()[1].split(",")[1].strip('"')) / 1e3
        self.cluster.settings = AT_ONCE
        proxies = self.cluster.start_proxies("clients", to_redis=True)
        return self.beside_direct(proxies, self.cluster.redis_port, measure)

    def beside_direct(self, proxies, direct_port, measure):
        """Rows of `measure` for each number at once, through the proxies and beside them in turn."""
        samples = {}
        for repetition in range(self.plan.repetitions):
            for count in self.plan.active:
                for target, host, port in (
                        (DIRECT, self.cluster.pods.ips["B"], direct_port),
                        ("Fairlead", "127.0.0.1", proxies.ports[0])):
                    # Not counted, because the kernel first has to get memory that the previous step did not use.
                    measure(host, port, count)
                    samples.setdefault((target, count), []).append(measure(host, port, count))
            progress(f"at once, repetition {repetition + 1}")
        self.cluster.stop(proxies)
        return scale_report.active_rows(samples)

    def churn(self):
        self.cluster.settings = SETTINGS
        proxies = self.cluster.start_proxies("churn")
        rows = []
        for _ in range(self.plan.churn_seconds // CHURN_SLICE_SECONDS):
            cpu = processes.on_cpu(proxies.all())[0]
            result = self.cluster.measure("short connections", proxies.ports[0], "crr", 8, CHURN_SLICE_SECONDS, 64)
            if result["fail"]:
                raise RuntimeError(f"{result['fail']} of {result['n']} short connections failed")
            spent = processes.on_cpu(proxies.all())[0] - cpu
            rows.append({"second": (len(rows) + 1) * CHURN_SLICE_SECONDS,
                         "connections_per_s": result["cps"], "worst_ms": result["worst_ms"],
                         "cpu_us_per_connection": spent / result["n"] * 1e6,
                         "memory_mib": processes.proportional_kb(proxies.all()) / 1024})
        progress("churn")
        self.cluster.stop(proxies)
        return rows

    def failover(self):
        samples, moved, rate = failover(self.cluster, self.plan.kills)
        progress(f"{moved} connections moved beside streams of {rate:.1f} GB/s")
        return scale_report.failover_rows(samples)

    def peers(self):
        self.cluster.settings = CROWDED
        shared = self.cluster.pods.directory("peers")
        peer_port = self.cluster.pods.port()
        inbound = self.cluster.start_side("b", shared, peer_port, 0)
        proxies = Proxies(inbound, f"{shared}/b.sock")
        rows, clients, base_kb = [], [], None
        for wanted in self.plan.peers:
            start, added = time.monotonic(), wanted - len(proxies.outbound)
            for _ in range(added):
                own = self.cluster.pods.directory(f"peer{len(proxies.outbound)}")
                self.cluster.add_outbound(proxies, own, peer_port)
                clients.append(self.cluster.hold(proxies.ports[-1], 1)[0])
            seconds = time.monotonic() - start
            time.sleep(SETTLE_SECONDS)
            memory = processes.proportional_data_kb([inbound])
            base_kb = memory if base_kb is None else base_kb
            rows.append({"peers": wanted, "groups": len(self.cluster.groups(proxies.inbound_admin)),
                         "memory_mib": memory / 1024,
                         "kib_per_peer": (memory - base_kb) / max(1, wanted - self.plan.peers[0]),
                         "seconds_per_peer": seconds / added,
                         "idle_cpu_percent": self.idle_cpu_percent([inbound])})
            progress(f"{wanted} peers")
        alive = self.cluster.release(clients)
        if alive != len(clients):
            raise RuntimeError(f"of {len(clients)} connections {alive} lived to the end")
        self.cluster.stop(proxies)
        return rows


def progress(text):
    print(f"scale: {text}", file=sys.stderr, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="few steps, short samples: a first look, no evidence")
    add("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}, comma-separated")
    add("--out", default=os.path.join(ROOT, "build", "bench", "scale.json"))
    add_arguments(parser)
    options = parser.parse_args()
    options.parts = options.only.split(",")
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}")
    return options


def main():
    options = parse_arguments()
    report = {"about": bench_report.about(ROOT) | {"quick": options.quick}}
    with running(options) as cluster:
        scale = Scale(cluster, PLANS[options.quick])
        for part in options.parts:
            report[part] = getattr(scale, part)()
            bench_report.write_json(options.out, report)
    scale_report.print_tables(report)
    scale_report.draw(os.path.splitext(options.out)[0] + ".svg", report)
    print(f"report: {options.out}")


if __name__ == "__main__":
    main()
