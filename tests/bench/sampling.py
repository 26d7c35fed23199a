"""One sample: a load through one pair, its CPU time, and disturbance by other processes."""

import json
import os
import subprocess
import time
from dataclasses import dataclass, field

import processes
import workloads

TRIES_MAX = 4         # of one sample, while others are busy
HOLD_SECONDS = 9      # of idle connections
IDLE_SECONDS = 5      # until they are measured: SMC-R gives pages back after 3 s
QUIET_STEP_SECONDS = 0.5
WIRE_SHARE_MAX = 0.5  # of the payload; a pair on shared memory sends a hundredth, TCP all of it


@dataclass
class Sample:
    target: str
    workload: str
    repetition: int
    metrics: dict = field(default_factory=dict)
    error: str = ""
    others_cpus: float = 0.0  # CPUs that other processes used
    steal: float = 0.0        # seconds
    busy: float = 0.0         # seconds
    noisy: bool = False


@dataclass(frozen=True)
class Clock:
    """Readings of all counters at one moment."""
    wall: float
    side: float
    switches: int
    servers: float
    client: float
    spinners: float
    wire_bytes: int  # that pod B received from the network
    machine: dict


class Sampler:
    def __init__(self, pods, loadgen, options):
        self.pods, self.loadgen, self.options = pods, loadgen, options
        self.retaken = 0

    def read_clock(self, sidecars, servers):
        side, switches = processes.on_cpu(sidecars)
        return Clock(time.monotonic(), side, switches, processes.whole_cpu(servers),
                     children_cpu(), processes.on_cpu(self.pods.spinners)[0],
                     processes.received_bytes(servers[0].pid, "eth0") if servers else 0,
                     processes.machine())

    def wait_for_quiet(self):
        """Waits, for a bounded time, until no other process uses the CPUs."""
        for _ in range(int(self.options.wait / QUIET_STEP_SECONDS)):
            before = self.read_clock([], [])
            time.sleep(QUIET_STEP_SECONDS)
            after = self.read_clock([], [])
            used = (after.machine["busy"] - before.machine["busy"]
                    - (after.spinners - before.spinners))
            if used / (after.wall - before.wall) < self.options.quiet:
                return

    def take(self, pair, workload, repetition):
        """Samples again while other processes disturb, but keeps the last try in any case."""
        for attempt in range(TRIES_MAX):
            if self.options.wait > 0:
                self.wait_for_quiet()
            sample = self.take_once(pair, workload, repetition)
            sample.noisy = sample.others_cpus > self.options.quiet
            if not sample.noisy or attempt + 1 == TRIES_MAX:
                return sample
            self.retaken += 1
        return None

    def take_once(self, pair, workload, repetition):
        route = pair.redis if workload in workloads.REDIS else pair.load
        command = workloads.command(workload, self.loadgen, route.host, route.port, self.options)
        before = self.read_clock(route.sidecars, pair.servers)
        output, complaint = self.pods.finish("A", list(pair.target.wrap) + command,
                                             self.options.secs * 4 + 60)
        after = self.read_clock(route.sidecars, pair.servers)
        spent = {name: getattr(after, name) - getattr(before, name)
                 for name in ("wall", "side", "switches", "servers", "client", "spinners",
                              "wire_bytes")}
        busy = after.machine["busy"] - before.machine["busy"] - spent["spinners"]
        others = busy - spent["side"] - spent["servers"] - spent["client"]
        sample = Sample(pair.target.name, workload, repetition, busy=busy,
                        others_cpus=max(0.0, others) / spent["wall"],
                        steal=after.machine["steal"] - before.machine["steal"])
        if output is None:
            sample.error = complaint
            return sample
        cost = workloads.Cost(spent["side"], busy, spent["switches"], spent["wire_bytes"])
        found, sample.error = workloads.metrics(workload, output, cost, self.options)
        sample.metrics = with_sidecars_only(found, route)
        if pair.target.over_smc and found.get("wire_share", 0) > WIRE_SHARE_MAX:
            sample.error = "the bytes crossed the network: this was TCP, not SMC-R"
        return sample

    def take_idle(self, pair, workload):
        """Memory and CPU of connections on which nothing happens."""
        route, wanted = pair.load, workloads.IDLE[workload]
        count = min(wanted, self.options.connections_max)
        if self.options.wait > 0:
            self.wait_for_quiet()
        before, machine_before = (processes.proportional_kb(route.sidecars),
                                  processes.machine_memory_kb())
        client = self.pods.start(
            "A", list(pair.target.wrap) + [self.loadgen, "idle", route.host, str(route.port),
                                           str(count), str(HOLD_SECONDS)], stdout=subprocess.PIPE)
        opened = json.loads(client.stdout.readline() or "{}")
        time.sleep(IDLE_SECONDS)
        after, machine_after = (processes.proportional_kb(route.sidecars),
                                processes.machine_memory_kb())
        cpu, start = processes.on_cpu(route.sidecars)[0], time.monotonic()
        time.sleep(1)
        idle = (processes.on_cpu(route.sidecars)[0] - cpu) / (time.monotonic() - start)
        alive = json.loads(client.stdout.readline() or "{}")
        client.wait()
        self.pods.stop(client)
        sample = Sample(pair.target.name, workload, 0)
        if opened.get("open") != count or alive.get("alive") != count:
            sample.error = (f"of {count} connections {opened.get('open', 0)} opened, "
                            f"{alive.get('alive', 0)} lived")
        sample.metrics = with_sidecars_only({
            "opened": opened.get("open", 0), "open_secs": opened.get("open_secs", 0.0),
            "alive": alive.get("alive", 0), "pss_idle_kb": before, "pss_kb": after,
            "side_kb_per_conn": (after - before) / count, "idle_cpu_pct": idle * 100,
            "machine_kb_per_conn": (machine_before["MemAvailable"]
                                    - machine_after["MemAvailable"]) / count,
            "slab_kb_per_conn": (machine_after["Slab"] - machine_before["Slab"]) / count}, route)
        return sample


def with_sidecars_only(metrics, route):
    """Without sidecars there is no cost, rather than a cost of 0, so no ratio may be computed."""
    if route.sidecars:
        return metrics
    own = ("side_", "pss_", "idle_cpu")
    return {name: value for name, value in metrics.items() if not name.startswith(own)}


def children_cpu():
    """CPU of child processes that have ended and been waited for: the clients."""

    times = os.times()
    return times.children_user + times.children_system
