"""Starts all pairs, interleaves the loads, and keeps the measurements.

Order: repetition, workload, target; the order of targets rotates. So a temporary disturbance of the
machine affects all targets equally. Ratios within one run remain valid although absolute values
drift.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

import targets as target_list
import workloads
from pods import CONNECTIONS_MAX, Pods, build_loadgen, redis_server
from sampling import Sampler

READY_SECONDS = 5.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Route:
    """The address to which a client connects, and the sidecars on its path."""
    host: str
    port: int
    sidecars: list
    logs: list


@dataclass
class Pair:
    target: target_list.Target
    servers: list = field(default_factory=list)
    load: Route = None
    redis: Route = None


@dataclass(frozen=True)
class Pass:
    """A part of the run: some targets and workloads, some number of times."""
    workloads: tuple
    repetitions: int
    targets: tuple = ()        # names; empty means all
    cpus_awake: bool = False
    suffix: str = ""           # behind the workload's name in the report


class Progress:
    """One line on a terminal, one line a repetition elsewhere."""

    def __init__(self, total):
        self.total, self.done, self.start = max(1, total), 0, time.monotonic()
        self.live = sys.stderr.isatty()

    def step(self, text):
        if self.live:
            elapsed = time.monotonic() - self.start
            left = elapsed / self.done * (self.total - self.done) if self.done else 0
            bar = "#" * (20 * self.done // self.total)
            sys.stderr.write(f"\r[{bar:20}] {self.done}/{self.total} {left / 60:5.1f} min left  "
                             f"{text:40}"[:110])
            sys.stderr.flush()
        self.done += 1

    def line(self, text):
        elapsed = (time.monotonic() - self.start) / 60
        start = "\r" + 110 * " " + "\r" if self.live else ""
        print(f"{start}{text} ({self.done} of {self.total} samples, {elapsed:.1f} min)",
              file=sys.stderr, flush=True)


class Runner:
    def __init__(self, options, targets, passes):
        self.options, self.targets, self.passes = options, targets, passes
        self.samples, self.servers, self.unusable = [], {}, {}
        self.wants_redis = any(workloads.needs_redis(p.workloads) for p in passes)
        self.pods = Pods(options.pin, options.keep)
        self.loadgen = os.path.join(self.pods.scratch, "loadgen")
        self.sampler = Sampler(self.pods, self.loadgen, options)

    def open(self):
        """Creates the pods; returns the congestion control that they use."""
        return self.pods.open(self.options.cc.split(","))

    def close(self):
        self.pods.close()

    def retaken(self):
        return self.sampler.retaken

    # -- bringing up ------------------------------------------------------------------------------

    def start_servers(self, wrap):
        """The applications in pod B, once for each wrapping: (load port, redis port, processes)."""
        if wrap not in self.servers:
            load, redis = self.pods.port(), self.pods.port()
            started = [self.pods.start("B", [*wrap, self.loadgen, "server", "0.0.0.0", str(load)])]
            if self.wants_redis:
                started.append(self.pods.start("B", [*wrap, *redis_server(redis)]))
            self.servers[wrap] = load, redis, started
        return self.servers[wrap]

    def start_route(self, target, app_port):
        place = target_list.Place(
            "127.0.0.1", self.pods.port(), self.pods.ips["B"], self.pods.port(), "127.0.0.1",
            app_port, self.pods.directory(f"{target.name}-{app_port}"), self.pods.namespace("A"),
            self.pods.namespace("B"), CONNECTIONS_MAX + 10)
        commands = target.make(place)
        for name, text in commands.files.items():
            with open(os.path.join(place.directory, name), "w", encoding="utf-8") as file:
                file.write(text)
        sidecars, logs = [], []
        for pod, command in (("B", commands.b), ("A", commands.a)):
            if command:
                logs.append(os.path.join(place.directory, pod + ".log"))
                sidecars.append(self.pods.start(pod, ["sh", "-c", "exec " + command], logs[-1]))
        if commands.a:
            return Route(place.listen_ip, place.listen_port, sidecars, logs)
        if commands.b:
            return Route(place.peer_ip, place.peer_port, sidecars, logs)
        return Route(self.pods.ips["B"], app_port, sidecars, logs)

    def why_not_ready(self, pair):
        """Empty once every route of the pair carries bytes; else the reason, after READY_SECONDS."""
        probes = [(pair.load, [self.loadgen, "pp", pair.load.host, str(pair.load.port), "64",
                               "0.05"])]
        if pair.redis:
            probes.append((pair.redis, ["redis-cli", "-h", pair.redis.host, "-p",
                                        str(pair.redis.port), "ping"]))
        deadline = time.monotonic() + READY_SECONDS
        for route, probe in probes:
            while True:
                output, complaint = self.pods.finish("A", list(pair.target.wrap) + probe, 10)
                if output:
                    break
                if time.monotonic() > deadline:
                    return "; ".join(filter(None, [complaint] + [tail(log) for log in route.logs]))
                time.sleep(POLL_SECONDS)
        return ""

    def bring_up(self):
        build_loadgen(self.loadgen)
        ready = []
        for target in self.targets:
            missing = target.missing()
            if missing:
                self.unusable[target.name] = missing
                continue
            load_port, redis_port, servers = self.start_servers(target.wrap)
            pair = Pair(target, servers, self.start_route(target, load_port))
            if self.wants_redis:
                pair.redis = self.start_route(target, redis_port)
            reason = self.why_not_ready(pair)
            if reason:
                self.unusable[target.name] = reason
            else:
                ready.append(pair)
        for name, reason in self.unusable.items():
            print(f"left out: {name}: {reason}", file=sys.stderr, flush=True)
        return ready

    # -- measuring --------------------------------------------------------------------------------

    def measure(self, on_progress):
        """Calls `on_progress` after every repetition, when `samples` has grown."""
        pairs = self.bring_up()
        chosen = [[pair for pair in pairs if not p.targets or pair.target.name in p.targets]
                  for p in self.passes]
        progress = Progress(sum(
            len(some) * sum(1 if w in workloads.IDLE else p.repetitions for w in p.workloads)
            for p, some in zip(self.passes, chosen)))
        for part, some in zip(self.passes, chosen):
            if part.cpus_awake:
                self.pods.keep_cpus_awake()
            try:
                self.measure_pass(part, some, progress, on_progress)
            finally:
                self.pods.let_cpus_sleep()

    def measure_pass(self, part, pairs, progress, on_progress):
        for repetition in range(part.repetitions):
            shift = repetition % max(1, len(pairs))
            for workload in part.workloads:
                if workload in workloads.IDLE:
                    continue
                for pair in pairs[shift:] + pairs[:shift]:
                    progress.step(f"{workload}{part.suffix} {pair.target.name}")
                    self.keep(self.sampler.take(pair, workload, repetition), part)
                    time.sleep(self.options.pause)
            progress.line(f"{'CPUs awake: ' if part.cpus_awake else ''}"
                          f"repetition {repetition + 1} of {part.repetitions}")
            on_progress()
        for workload in part.workloads:
            if workload in workloads.IDLE:
                for pair in pairs:
                    progress.step(f"{workload} {pair.target.name}")
                    self.keep(self.sampler.take_idle(pair, workload), part)
        on_progress()

    def keep(self, sample, part):
        sample.workload += part.suffix
        self.samples.append(sample)


def tail(path):
    """The last line of a sidecar's log."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().strip().splitlines()
    return lines[-1] if lines else ""


def installed(*programs):
    """The missing ones of `programs`."""
    return [name for name in programs
            if subprocess.run(["sh", "-c", f"command -v {name}"], stdout=subprocess.DEVNULL,
                              check=False).returncode != 0]
