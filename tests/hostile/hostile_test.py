"""Goal: a hostile sidecar harms only itself. Method: pods wired by protocol, with fairlead-node. An innocent pair of
pods talks over SMC-R. Meanwhile two hostile pods of the same uid (attacker.py, driven by seeds) attack the node
agent, the pair's sidecars, and resources that one uid shares on a node. Blocks of seeds alternate with controls of
the same length, in which two harmless programs use the processors as much as the attackers do.

Asserted for all seeds together: no connection of the pair fails, no process of Fairlead aborts, and the pair stays on
SMC-R. Its longest gap is at most GAP_RATIO_MAX times that of the control. Afterwards descriptors, mappings and memory
of Fairlead's processes are as before.

Environment:
  HOSTILE_SEEDS       number of seeds (default 200), the last line counts them
  HOSTILE_FIRST_SEED  the first one (default 1)
  HOSTILE_VERBOSE     shows the actions of each block
"""
import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(1, str(HERE.parent / "cni"))

import brokered  # pylint: disable=wrong-import-position
import plugin  # pylint: disable=wrong-import-position
from wired import harness  # pylint: disable=wrong-import-position

SEEDS = int(os.environ.get("HOSTILE_SEEDS", "200"))
FIRST_SEED = int(os.environ.get("HOSTILE_FIRST_SEED", "1"))
VERBOSE = bool(os.environ.get("HOSTILE_VERBOSE"))

ATTACKERS = 2
SEEDS_PER_BLOCK = 20
CONTROL_SECONDS_MIN = 2.0
GAP_RATIO_MAX = 2.0
# Shorter gaps come from the scheduler: a time slice on a machine with more programs than processors.
GAP_MS_FLOOR = 100.0
LASTING_CONNECTIONS = 4
PORT = 7000
# Growth of a Fairlead process over all seeds that is no leak: caches, the allocator, a late thread.
LEAKED_DESCRIPTORS_MAX = 8
LEAKED_MAPPINGS_MAX = 48
LEAKED_BYTES_MAX = 24 << 20
SETTLE_SECONDS_MAX = 60
ATTACKER_USER = ("setpriv", "--reuid=2201", "--regid=2201", "--clear-groups", "--no-new-privs",
                 "--bounding-set=-all", "--inh-caps=-all")
BURN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


# Freed memory that AddressSanitizer keeps: 256 MiB by default, which would look like a leak.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"


class Usage:
    """What a process holds."""

    def __init__(self, pid):
        proc = Path("/proc") / str(pid)
        self.descriptors = len(os.listdir(proc / "fd"))
        self.mappings = len((proc / "maps").read_text(encoding="utf-8").splitlines())
        status = (proc / "status").read_text(encoding="utf-8")
        self.resident = int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def growth_since(self, before):
        """Resources that have grown beyond their limit, or nothing."""
        limits = (("descriptors", LEAKED_DESCRIPTORS_MAX), ("mappings", LEAKED_MAPPINGS_MAX),
                  ("resident", LEAKED_BYTES_MAX * harness.SLOWNESS))
        return [f"{name} {getattr(before, name)} -> {getattr(self, name)}" for name, limit in limits
                if getattr(self, name) - getattr(before, name) > limit]


class HostileNeighbour(brokered.BrokerTest):
    # As by default: connections begin in frames.
    options = {"log": {"level": "info"}, "smc": {"defer_bytes": "64KiB"}}

    def setUp(self):
        super().setUp()
        self.server_pod, self.client_pod = self.wired_pod(plugin.IN), self.wired_pod(plugin.IN)
        # Readable for the attackers' user, as the programs are.
        for folder in ("hostile", "integration"):
            shutil.copytree(HERE.parent / folder, self.binaries / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE.parent / "suite.py", self.binaries)
        subprocess.run(["chmod", "-R", "a+rX", self.binaries], check=True)
        self.attacker_pods = [self.wired_pod(plugin.IN) for _ in range(ATTACKERS)]
        self.inbound = self.sidecar(self.server_pod, "server", brokered.BY_BROKER)
        self.outbound = self.sidecar(self.client_pod, "client", brokered.BY_BROKER)
        self.wait_node(2, "fairlead_node_broker_devices")
        self.start_innocent(self.server_pod, "serve", str(PORT))
        self.client = self.start_innocent(self.client_pod, "talk", self.server_pod.address(), str(PORT),
                                          str(LASTING_CONNECTIONS))

    def start_innocent(self, pod, *words):
        """An application of the pod: in its cgroup, of another user than the sidecar."""
        join = f'echo $$ > {pod.cgroup}/cgroup.procs && exec "$@"'
        process = subprocess.Popen(
            ["sh", "-c", join, "sh", *pod.command(sys.executable, "-B", str(HERE / "innocent.py"), *words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def tell_client(self, command):
        self.client.stdin.write(command + "\n")
        self.client.stdin.flush()
        return self.client.stdout.readline()

    def measured(self, action):
        """The client's report of the time that `action` takes."""
        self.assertEqual(self.tell_client("begin"), "begun\n")
        action()
        report = json.loads(self.tell_client("end"))
        self.assertEqual(report["errors"], [], self.current)
        self.assertGreater(report["round_trips"], 0, self.current)
        for proxy in (self.inbound, self.outbound):
            self.assertIsNone(proxy.process.poll(), f"{proxy.name} has ended: {self.current}")
        self.assertIsNone(self.agent.poll(), f"fairlead-node has ended: {self.current}\n{self.agent_log()}")
        return report

    def agent_log(self):
        text = (self.folder / f"node{self.logs}.log").read_text(encoding="utf-8", errors="replace")
        return text[-harness.LOG_CHARACTERS_SHOWN:]

    def peer_ids(self):
        """Any pod may learn these, because they are in every handshake. So the attackers get them directly."""
        gids = [proxy.get_json("/devices")["devices"][0]["gid"] for proxy in (self.inbound, self.outbound)]
        return ",".join(gids)

    def attack(self, seeds):
        attackers = []
        for pod, share in zip(self.attacker_pods, range(ATTACKERS)):
            mine = [str(seed) for seed in seeds[share::ATTACKERS]]
            if not mine:
                continue
            join = f'echo $$ > {pod.cgroup}/cgroup.procs && exec "$@"'
            attackers.append(subprocess.Popen(
                ["nice", "-n", "19", "sh", "-c", join, "sh", *pod.command(
                    *ATTACKER_USER, sys.executable, "-B", str(self.binaries / "hostile/attacker.py"),
                    "--victim-gids", self.peer_ids_text, "--victim-addresses",
                    f"{self.server_pod.address()},{self.client_pod.address()}", "--victim-port", str(PORT), *mine)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        for attacker in attackers:
            output, errors = attacker.communicate(timeout=harness.seconds(600))
            # An attacker that stops attacks nothing, so its failure fails the test.
            self.assertEqual(attacker.returncode, 0, f"{self.current}\n{output}{errors}")
            for action, count in json.loads(output.splitlines()[-1]).items():
                self.actions[action] = self.actions.get(action, 0) + count

    def burn(self, seconds):
        burners = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", BURN.format(seconds=seconds)])
                   for _ in range(ATTACKERS)]
        for burner in burners:
            burner.wait()

    def usages(self):
        return {name: Usage(pid) for name, pid in (
            ("server sidecar", self.inbound.pid), ("client sidecar", self.outbound.pid),
            ("fairlead-node", self.agent_pid()))}

    def agent_pid(self):
        return self.agent.pid

    def test_innocent_pair_does_not_notice(self):
        self.actions = {}
        self.current = "warm-up"
        self.peer_ids_text = self.peer_ids()
        # The first attack of each kind causes allocations that are kept.
        self.measured(lambda: self.attack(random.Random(0).sample(range(1 << 32), SEEDS_PER_BLOCK)))
        self.wait_settled()
        before = self.usages()
        attacked, control = 0.0, 0.0
        seconds = CONTROL_SECONDS_MIN
        seeds = list(range(FIRST_SEED, FIRST_SEED + SEEDS))
        for start in range(0, len(seeds), SEEDS_PER_BLOCK):
            block = seeds[start:start + SEEDS_PER_BLOCK]
            self.current = f"control before seed {block[0]}"
            quiet = self.measured(lambda: self.burn(seconds))
            self.current = f"seeds {block[0]} to {block[-1]}"
            began = time.monotonic()
            report = self.measured(lambda: self.attack(block))
            seconds = max(CONTROL_SECONDS_MIN, time.monotonic() - began)
            self.assert_nothing_leaked(before)
            control = max(control, quiet["longest_gap_ms"])
            attacked = max(attacked, report["longest_gap_ms"])
            print(f"hostile: {start + len(block)} of {len(seeds)} seeds, longest gap {attacked:.0f} ms, "
                  f"control {control:.0f} ms", flush=True)
            if VERBOSE:
                print(f"  attacked {report}\n  control  {quiet}", flush=True)
        self.current = "after the last seed"
        for proxy in (self.inbound, self.outbound):
            metrics = proxy.metrics()
            self.assertGreaterEqual(metrics.connections("smcr"), LASTING_CONNECTIONS, proxy.name)
            self.assertGreater(metrics.connections("short"), 0, proxy.name)
        print(f"hostile: actions {json.dumps(dict(sorted(self.actions.items())))}", flush=True)
        self.assertLessEqual(attacked, max(GAP_RATIO_MAX * control, GAP_MS_FLOOR))
        print(f"hostile: OK seeds={len(seeds)} longest_gap_ms={attacked:.0f} control_ms={control:.0f}", flush=True)

    def assert_nothing_leaked(self, before):
        """The sidecars close channels after the node agent has seen the attackers' end. That may take a moment."""
        self.wait_settled()

        def leaks():
            return {name: grown for name, usage in self.usages().items() if (grown := usage.growth_since(before[name]))}
        with contextlib.suppress(AssertionError):
            harness.wait_until(lambda: not leaks(), "no growth", SETTLE_SECONDS_MAX)
        self.assertEqual(leaks(), {}, self.current)

    def wait_settled(self):
        """Waits until the node agent has only the pair's devices."""
        self.wait_node(2, "fairlead_node_broker_devices")


if __name__ == "__main__":
    plugin.main()
