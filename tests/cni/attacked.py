"""Two honest pods with sidecars and a crowd of connections, and a measure of how they are while others do harm.

Environment: FAIRLEAD_CROWD, the number of connections (default 200).
"""
import contextlib
import os
import re
import select
import subprocess
import time
from pathlib import Path

import brokered
import plugin
import steady_load
from agent_attackers import Attacker
from brokered import BY_BROKER
from wired import harness

CROWD = int(os.environ.get("FAIRLEAD_CROWD", "200"))
ASKS_SECONDS = 0.1 * harness.SLOWNESS  # of each connection
GAP_SECONDS = 1.0 * harness.SLOWNESS  # that a connection may have to wait, also while a sidecar is replaced
DRAIN_SECONDS = 3
KEEPING = {**BY_BROKER, "hand_over": {"socket": "@fairlead-keeper"}, "drain": {"timeout": f"{DRAIN_SECONDS}s"},
           # In frames, as connections at rest are.
           "smc": {"defer_bytes": "64KiB", "defer_turns": 1000, "defer_time": "1h"},
           **({"memory": {"limit": "2GiB"}} if CROWD > 1000 else {})}
AGENT_END_SECONDS = 5 * harness.SLOWNESS
BUSY_SHARE_MAX = 0.25  # of a processor
CONNECTED = "03"  # in /proc/net/unix
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy_share(pid, seconds):
    """The part of a processor that the process uses over this time."""
    used, began = processor_seconds(pid), time.monotonic()
    select.select([], [], [], seconds)
    return (processor_seconds(pid) - used) / (time.monotonic() - began)


def sockets_of(pid):
    """Those of all threads: a thread may have a table of its own."""
    found = set()
    for entry in Path(f"/proc/{pid}/task").glob("*/fd/*"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(entry)
            if target.startswith("socket:"):
                found.add(target)
    return found


class Attacked(brokered.BrokerTest):
    """Honest pods, and a measure of how they are."""

    limits = ()  # of sidecars
    crowd = CROWD

    def start(self, name, listeners, options=None, **how):
        return super().start(name, listeners, options, limits=self.limits, **how)

    def start_victims(self):
        self.server, self.client = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        self.inbound = self.sidecar(self.server, "server", KEEPING)
        self.outbound = self.sidecar(self.client, "client", KEEPING)
        self.wait_for_agent(self.inbound, self.outbound)
        self.load = steady_load.Load(self.server, self.client, self.crowd, ASKS_SECONDS)
        self.addCleanup(self.load.close)
        self.settle()

    def wait_for_agent(self, *proxies, name="@fairlead-keeper"):
        """Until they have accepted the agent's connection to this socket of theirs."""
        def accepted(proxy):
            lines = Path(f"/proc/{proxy.pid}/net/unix").read_text(encoding="ascii").splitlines()
            return any(line.split()[5] == CONNECTED and line.endswith(" " + name) for line in lines)
        for proxy in proxies:
            harness.wait_until(lambda one=proxy: accepted(one), f"the agent to connect to {name} of {proxy.name}", 2)

    def attacker(self, pod, name, *arguments, **how):
        attacker = Attacker(self.folder, pod, name, *arguments, **how)
        self.addCleanup(attacker.close)
        return attacker

    def assert_agent_lives(self):
        if self.agent.poll() is not None:
            log = (self.folder / f"node{self.logs}.log").read_text(encoding="utf-8", errors="replace")
            self.fail(f"the agent ended with {self.agent.returncode}: {log[-3000:]}")

    def wait_said(self, attacker, *words):
        def said():
            self.assert_agent_lives()
            return any(attacker.has_said(word) for word in words)
        harness.wait_until(said, f"an attacker to say {words}", 2)

    def settle(self):
        """All connections, and new ones, are answered from now on, and had not to wait long since the last time."""
        now = time.monotonic()

        def all_answered():
            seen = self.load.tell("report")
            self.assert_well(seen)
            return seen["answered_since"] > now and seen["fresh_started"] > now
        harness.wait_until(all_answered, "all connections to be answered")
        return self.load.tell("begin")

    def assert_well(self, seen):
        self.assertEqual((seen["failed"], seen["first_failures"]), (0, []))
        self.assertEqual(seen["fresh_failed"], [])
        self.assert_no_gap(seen)

    def assert_no_gap(self, seen):
        for what in ("longest", "waits", "fresh_longest", "fresh_waits"):
            self.assertLess(seen[what], GAP_SECONDS, f"{what}: {seen}")

    def replace(self, may_drain=True):
        """The server's sidecar. Its connections go on in the next one; where it may, it serves them until it ends
        instead. Says which."""
        old = self.inbound
        if not may_drain:
            self.wait_for_agent(old)
        began = time.monotonic()
        old.terminate()
        while old.process.poll() is None:
            self.check_while_it_ends(began, old)
        ended = time.monotonic()
        self.assertEqual(old.process.returncode, 0)
        self.inbound = self.sidecar(self.server, "server", KEEPING)
        parked = re.search(r" event=parked connections=(\d+) ended=0 ", old.log())
        if parked:
            self.assertNotIn("event=not_parked", old.log())
            taken = re.search(r" event=taken_back connections=(\d+) ended=0 ", self.inbound.log())
            self.assertIsNotNone(taken, self.inbound.log())
            self.assertEqual(taken.group(1), parked.group(1))
            self.assertGreaterEqual(int(taken.group(1)), self.crowd)
            self.settle()
            return "handed over"
        self.assertTrue(may_drain, old.log())
        self.assertNotIn("event=taken_back", self.inbound.log())
        self.assert_drained(began, ended)
        return "drained"

    def check_while_it_ends(self, began, old):
        seen = self.load.tell("report")
        self.assert_agent_lives()
        self.assert_no_gap(seen)
        if seen["failed"]:
            self.assertGreaterEqual(seen["first_failures"][0]["at"], began + DRAIN_SECONDS,
                                    f"{seen['first_failures']}, {old.log()[-2000:]}")
        self.assertLess(time.monotonic() - began, DRAIN_SECONDS + harness.seconds(1), "the old process does not end")
        select.select([], [], [], 0.05)

    def assert_drained(self, began, ended):
        """Connections ended with the old process and not before, none hangs, and the next process serves new ones."""
        self.assertGreaterEqual(ended - began, DRAIN_SECONDS)

        def all_told():
            seen = self.load.tell("report")
            self.assert_no_gap(seen)
            return seen["failed"] == self.crowd and seen
        seen = harness.wait_until(all_told, "the ends of all connections that were drained")
        for failure in seen["first_failures"]:
            self.assertGreaterEqual(failure["at"], began + DRAIN_SECONDS, failure)
        # New ones were refused while nobody listened.
        for failure in seen["fresh_failed"]:
            self.assertGreaterEqual(failure["at"], began, failure)
        self.load.tell("begin")
        self.settle()

    def end_agent(self):
        self.agent.terminate()
        began = time.monotonic()
        try:
            code = self.agent.wait(AGENT_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"the agent does not end within {AGENT_END_SECONDS:g} s")
        self.assertEqual(code, 0)
        return time.monotonic() - began
