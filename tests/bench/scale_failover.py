"""Ports that fail under load: the time for which connections of the failed link carry no data."""

import json
import os
import signal
import subprocess
import sys
import time

from pods import HERE

TWO_LINKS = {"other_devices": "ports=2", "smc": {"max_links": 2, "defer_bytes": 0}}
PINGING, MESSAGE_BYTES = 32, 4096
STREAMS, SEND_BYTES = 4, 131072
WINDOW_SECONDS = 0.5   # time after a port failure in which the longest wait is measured
POLL_SECONDS = 0.01
SYMMETRIC_SECONDS_MAX = 10.0
NOTHING = "nothing (for comparison)"
EVENTS = (("a", "the client's proxy"), ("b", "the server's proxy"))


class Failover:
    """One pair of proxies with two links, ping-pong and streams through them."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.directory = None

    def open(self, seconds):
        settings, self.cluster.settings = self.cluster.settings, TWO_LINKS
        self.proxies = self.cluster.start_proxies("failover")
        self.cluster.settings = settings
        self.directory = os.path.dirname(self.proxies.inbound_admin)
        port, pods = str(self.proxies.ports[0]), self.cluster.pods
        self.pinging = pods.start("A", [sys.executable, "-B", os.path.join(HERE, "longest_gap.py"),
                                        "127.0.0.1", port, str(PINGING), str(MESSAGE_BYTES)],
                                  stdout=subprocess.PIPE)
        self.read_report()
        self.streams = pods.start("A", [self.cluster.loadgen, "bulk", "127.0.0.1", port, str(STREAMS),
                                        str(seconds), str(SEND_BYTES)], stdout=subprocess.PIPE)
        self.wait_symmetric()

    def close(self):
        """Returns GB/s of the streams, whose bytes were counted at both ends."""
        result = json.loads(self.streams.stdout.readline() or "{}")
        if not result.get("ok"):
            raise RuntimeError("a stream did not arrive whole")
        for process in (self.streams, self.pinging):
            self.cluster.pods.stop(process)
        self.cluster.stop(self.proxies)
        return result["gbytes_per_s"]

    def admin(self, side):
        return f"{self.directory}/{side}.sock"

    def wait_symmetric(self):
        deadline = time.monotonic() + SYMMETRIC_SECONDS_MAX
        for side, _ in EVENTS:
            while {group["type"] for group in self.cluster.groups(self.admin(side))} != {"symmetric"}:
                if time.monotonic() > deadline:
                    raise RuntimeError("there is no second link")
                time.sleep(POLL_SECONDS)

    def take_port(self, side, port, state):
        self.cluster.ctl(self.admin(side), "port", "shm0", str(port), state)

    def moved(self):
        counts = [self.cluster.ctl(self.admin(side), "stats") for side, _ in EVENTS]
        return sum(count["total"]["connections"]["moved"] for count in counts)

    def read_report(self):
        line = self.pinging.stdout.readline()
        if not line:
            raise RuntimeError("a ping-pong connection was lost")
        return json.loads(line)

    def longest_ms(self, event):
        """The longest wait for an answer of any connection within a window that begins with `event`."""
        self.pinging.send_signal(signal.SIGUSR1)
        self.read_report()
        event()
        time.sleep(WINDOW_SECONDS)
        self.pinging.send_signal(signal.SIGUSR1)
        report = self.read_report()
        if report["silent"]:
            raise RuntimeError(f"{report['silent']} connections carried nothing for {WINDOW_SECONDS} s")
        return report["longest_ms"]


def failover(cluster, kills):
    """({failed port: [longest wait, ms]}, connections moved, GB/s of the streams); `kills` on each side."""
    run = Failover(cluster)
    run.open(seconds=kills * 2 * (2 * WINDOW_SECONDS + 0.5) + 2)
    samples = {name: [] for name in (NOTHING, *(name for _, name in EVENTS))}
    moved = run.moved()
    for kill in range(kills):
        port = 1 + kill % 2
        for side, name in EVENTS:
            samples[NOTHING].append(run.longest_ms(lambda: None))
            samples[name].append(run.longest_ms(lambda: run.take_port(side, port, "down")))
            run.take_port(side, port, "up")
            run.wait_symmetric()
    moved = run.moved() - moved
    return samples, moved, run.close()
