#!/usr/bin/env python3
"""Profiles a pair of proxies under short connections: connect, 64 B there and back, close.

  profile_churn.py                       with 8 and with 256 clients at once, 8 s each
  profile_churn.py --clients 8 --seconds 3

For each number of clients it prints the system calls of both proxies per connection, and where their processor time
went: in which system call, or in the proxies themselves. Two pods on one host, as in bench.py. Needs root and perf.
"""

import argparse
import os
import re
import signal
import subprocess
import time
from collections import Counter

from scale_cluster import SETTINGS, add_arguments, running

ATTACH_SECONDS = 1.0  # perf opens hundreds of events before it counts, and does not say when
SAMPLES_PER_SECOND = 1999  # no multiple of the kernel's ticks
LEAST_SHARE = 0.5  # percent; rows below are added up
# In the call chain of a sample the function of a system call is called by one of these.
ENTRIES = ("x64_sys_call", "do_syscall_64", "invoke_syscall")
DEFERRED = "(behind a call)"  # what the kernel does before it returns: mostly the end of closed sockets
PREFIXES = re.compile(r"^(__x64_sys_|__arm64_sys_|__se_sys_|__do_sys_|__sys_|ksys_|do_)+")


class Churn:
    def __init__(self, cluster, seconds):
        self.cluster, self.seconds = cluster, seconds
        cluster.settings = SETTINGS
        self.proxies = cluster.start_proxies("profile")
        self.pids = ",".join(str(process.pid) for process in self.proxies.all())

    def load(self, clients, watcher):
        """Short connections while `watcher` runs; returns how many were made, and what it said."""
        command = [*watcher, "-p", self.pids]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watching:
            time.sleep(ATTACH_SECONDS)
            try:
                made = self.cluster.measure("short connections", self.proxies.ports[0], "crr", clients, self.seconds, 64)["n"]
            finally:
                watching.send_signal(signal.SIGINT)
                said = watching.communicate()[0]
        if watching.returncode not in (0, -signal.SIGINT):
            raise RuntimeError(f"{' '.join(command)}: {said}")
        return made, said

    def calls(self, clients):
        """System calls per connection, by name."""
        made, said = self.load(clients, ["perf", "stat", "-x", ",", "-e", "syscalls:sys_enter_*"])
        counts = Counter({name: int(count) for count, name in
                          re.findall(r"^(\d+),,syscalls:sys_enter_(\w+),", said, re.MULTILINE)})
        return {name: count / made for name, count in counts.most_common() if count}

    def shares(self, clients, path):
        """Percent of the processor time of both proxies by system call; "" is that of the proxies themselves."""
        made, _ = self.load(clients, ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES_PER_SECOND),
                                      "-g", "-o", path])
        script = subprocess.run(["perf", "script", "-i", path, "-F", "ip,sym"], capture_output=True, text=True,
                                check=True).stdout
        places = Counter()
        for sample in script.split("\n\n"):
            if chain := [line.split()[-1] for line in sample.splitlines() if line.strip()]:
                places[call_of(chain)] += 1
        return made, {name: 100 * count / places.total() for name, count in places.most_common()}


def call_of(chain):
    """The system call of a chain of functions, innermost first; "" outside of system calls."""
    for inner, outer in zip(chain, chain[1:]):
        if outer in ENTRIES and inner not in ENTRIES:
            return DEFERRED if inner.startswith("exit_to_user_mode") else PREFIXES.sub("", inner)
    return ""


def show(clients, made, seconds, calls, shares):
    print(f"\n{clients} clients: {made / seconds:,.0f} connections/s under perf, {sum(calls.values()):.1f} system "
          "calls a connection, both proxies")
    print(f"  {'call':18} {'a connection':>12} {'% of time':>10}")
    print(f"  {'(the proxies)':18} {'':12} {shares.get('', 0):10.1f}")
    rest = 100 - shares.get("", 0)
    for name in sorted({*calls, *shares} - {""}, key=lambda name: -shares.get(name, 0)):
        share = shares.get(name, 0)
        if share < LEAST_SHARE and calls.get(name, 0) < 0.05:
            continue
        rest -= share
        print(f"  {name:18} {calls.get(name, 0):12.2f} {share:10.1f}")
    print(f"  {'(other)':18} {'':12} {rest:10.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="8,256", help="numbers of clients at once, comma-separated")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each of the two samples")
    add_arguments(parser)
    options = parser.parse_args()
    with running(options, "perf") as cluster:
        churn = Churn(cluster, options.seconds)
        for clients in map(int, options.clients.split(",")):
            calls = churn.calls(clients)
            made, shares = churn.shares(clients, os.path.join(cluster.pods.scratch, "perf.data"))
            show(clients, made, options.seconds, calls, shares)
        cluster.stop(churn.proxies)


if __name__ == "__main__":
    main()
