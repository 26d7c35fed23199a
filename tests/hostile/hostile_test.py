"""Goal: a hostile sidecar harms only itself. Method: pods wired by protocol, with fairlead-node. An innocent pair of
pods talks over SMC-R. Meanwhile two hostile pods of the same uid (attacker.py, driven by seeds) attack the node
agent, the pair's sidecars, a sidecar of version 1, and resources that one uid shares on a node. Blocks of seeds alternate
with controls of the same length, in which two harmless programs use the processors as much as the attackers do.

The attackers are peers as well, in both roles and versions, over shared memory and TCP: contacts.py. Each victim has an
application that answers them, and connects to them when they ask for that (lured.py).

Asserted for all seeds together: no connection of the pair fails, no process of Fairlead aborts, and the pair stays on
SMC-R. Its longest gap is at most GAP_RATIO_MAX times that of the control. Afterwards descriptors, mappings and memory
of Fairlead's processes are as before. With SEEDS_WITH_ALL_KINDS seeds and more, each kind of attack was drawn, and the
attacks have reached the states that they are meant for. With SEEDS_WITH_ALL_DEEDS, each deed was drawn there.

Environment:
  HOSTILE_SEEDS       number of seeds (default 120, or 40 with sanitizers), the last line counts them
  HOSTILE_FIRST_SEED  the first one (default 1)
  HOSTILE_VERBOSE     shows the actions of each block
"""
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(1, str(HERE.parent / "cni"))

import brokered  # pylint: disable=wrong-import-position
import kinds  # pylint: disable=wrong-import-position
import plugin  # pylint: disable=wrong-import-position
import ports  # pylint: disable=wrong-import-position
import resources  # pylint: disable=wrong-import-position
from wired import harness  # pylint: disable=wrong-import-position

# Fewer where sanitizers make each several times as long.
SEEDS = int(os.environ.get("HOSTILE_SEEDS", 40 if harness.sanitized() else 120))
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
# Applications of all victims that the attackers may use. The pair's own would have to serve them beside the pair.
LURED_PORT = 7001
VICTIMS = 3
# An attacker that claims another victim's peer id makes two victims open a channel between them, or one with itself,
# of which it holds both sides. Idle ones stay, up to this number for each peer (docs/shm.md, "Limits").
CHANNELS_OF_A_PEER_MAX = 4
SOCKETS_OF_A_CHANNEL = 2
# Growth of a Fairlead process over all seeds that is no leak: caches, the allocator, a late thread.
LEAKED_DESCRIPTORS_MAX = 8 + CHANNELS_OF_A_PEER_MAX * SOCKETS_OF_A_CHANNEL * (VICTIMS + 1)
LEAKED_MAPPINGS_MAX = 48
LEAKED_BYTES_MAX = 24 << 20
SETTLE_SECONDS_MAX = 10
SEEDS_WITH_ALL_KINDS = 100
SEEDS_WITH_ALL_DEEDS = 500  # a deed is drawn only where an attack has reached its state
# Of the attacks of a family. The others meet a limit that earlier attacks of the same pod have used up.
REACHED_SHARE_MIN = 0.4
DRAWS_THAT_REACH = 10


class Usage:
    """What a process holds."""

    def __init__(self, pid):
        proc = Path("/proc") / str(pid)
        self.descriptors = len(os.listdir(proc / "fd"))
        self.mappings = len((proc / "maps").read_text(encoding="utf-8").splitlines())
        self.resident = resources.resident_bytes((proc / "status").read_text(encoding="utf-8"))

    def growth_since(self, before):
        return resources.growth(before, self, {"descriptors": LEAKED_DESCRIPTORS_MAX, "mappings": LEAKED_MAPPINGS_MAX,
                                               "resident": LEAKED_BYTES_MAX * harness.SLOWNESS})


class HostileNeighbour(brokered.BrokerTest):
    # As by default connections begin in frames. Groups have up to three links.
    options = harness.merge(ports.THREE_PORTS, {"log": {"level": "info"}, "smc": {"defer_bytes": "64KiB"}})

    def setUp(self):
        super().setUp()
        self.server_pod, self.client_pod, self.legacy_pod = (self.wired_pod(plugin.IN) for _ in range(VICTIMS))
        # Readable for the attackers' user, as the programs are.
        for folder in ("hostile", "integration"):
            shutil.copytree(HERE.parent / folder, self.binaries / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE.parent / "suite.py", self.binaries)
        subprocess.run(["chmod", "-R", "a+rX", self.binaries], check=True)
        self.attacker_pods = [self.wired_pod(plugin.IN) for _ in range(ATTACKERS)]
        self.inbound = self.sidecar(self.server_pod, "server", brokered.BY_BROKER)
        self.outbound = self.sidecar(self.client_pod, "client", brokered.BY_BROKER)
        # It speaks version 1 alone, so a hostile server gets such a client.
        self.legacy = self.sidecar(self.legacy_pod, "legacy", harness.merge(brokered.BY_BROKER, {"smc": {"version": 1}}))
        self.victims = ((self.inbound, self.server_pod, 2), (self.outbound, self.client_pod, 2),
                        (self.legacy, self.legacy_pod, 1))
        self.wait_settled()
        for _, pod, _ in self.victims:
            # What it does for the attackers has their share of the processors.
            self.start_application(pod, HERE / "lured.py", str(LURED_PORT), wrapper=("nice", "-n", "19"))
        self.start_application(self.server_pod, HERE / "innocent.py", "serve", str(PORT))
        self.client = self.start_application(self.client_pod, HERE / "innocent.py", "talk", self.server_pod.address(),
                                             str(PORT), str(LASTING_CONNECTIONS))

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
        for proxy, _, _ in self.victims:
            self.assertIsNone(proxy.process.poll(), f"{proxy.name} has ended: {self.current}")
        self.assertIsNone(self.agent.poll(), f"fairlead-node has ended: {self.current}\n{self.agent_log()}")
        return report

    def agent_log(self):
        text = (self.folder / f"node{self.logs}.log").read_text(encoding="utf-8", errors="replace")
        return text[-harness.LOG_CHARACTERS_SHOWN:]

    def told_victims(self):
        """Any pod may learn these ids, because they are in every handshake. So the attackers get them directly."""
        words = []
        for proxy, pod, version in self.victims:
            gid = next(row["gid"] for row in proxy.get_json("/devices")["devices"] if row["port"] == 1)
            words += ["--victim", f"{gid},{pod.address()},{version}"]
        return words

    def attack(self, seeds):
        attackers = []
        for pod, share in zip(self.attacker_pods, range(ATTACKERS)):
            mine = [str(seed) for seed in seeds[share::ATTACKERS]]
            if not mine:
                continue
            attackers.append(subprocess.Popen(
                ["nice", "-n", "19", *pod.command_in_cgroup(
                    *resources.HOSTILE_USER, sys.executable, "-B", str(self.binaries / "hostile/attacker.py"),
                    *self.victim_words, "--victim-port", str(LURED_PORT), *mine)],
                stdout=subprocess.PIPE, text=True))
        for attacker in attackers:
            output, _ = attacker.communicate(timeout=harness.seconds(60))
            # An attacker that stops attacks nothing, so its failure fails the test.
            self.assertEqual(attacker.returncode, 0, f"{self.current}\n{output}")
            for action, count in json.loads(output.splitlines()[-1]).items():
                self.actions[action] = self.actions.get(action, 0) + count

    def usages(self):
        return {name: Usage(pid) for name, pid in (
            ("server sidecar", self.inbound.pid), ("client sidecar", self.outbound.pid), ("sidecar of version 1", self.legacy.pid),
            ("fairlead-node", self.agent.pid))}

    def test_innocent_pair_does_not_notice(self):
        self.actions = {}
        self.current = "warm-up"
        self.victim_words = self.told_victims()
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
            quiet = self.measured(lambda: resources.burn(seconds, ATTACKERS))
            self.current = f"HOSTILE_FIRST_SEED={block[0]} HOSTILE_SEEDS={len(block)}"
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
        self.report_kinds(len(seeds))
        others = {name: count for name, count in sorted(self.actions.items())
                  if name.split("/")[0] not in ("links", "frames", "deed", "missed") and name.count("/") < 2}
        print(f"hostile: actions {json.dumps(others)}", flush=True)
        self.assertLessEqual(attacked, max(GAP_RATIO_MAX * control, GAP_MS_FLOOR))
        print(f"hostile: OK seeds={len(seeds)} longest_gap_ms={attacked:.0f} control_ms={control:.0f}", flush=True)

    def report_kinds(self, seeds):
        """Each kind of attack, how often it was drawn and reached the state it is meant for, and how the others failed."""
        for name in (*kinds.ALL, *(f"deed/{deed}" for deed in kinds.DEEDS)):
            details, missed = self.counts_below(f"{name}/"), self.counts_below(f"missed/{name}/")
            reached = "" if name.startswith("deed/") else f"reached={details.pop('reached', 0)} "
            print(f"hostile: {name} drawn={self.actions.get(name, 0)} {reached}{json.dumps(details)}"
                  + (f" missed {json.dumps(missed)}" if missed else ""), flush=True)
        if seeds < SEEDS_WITH_ALL_KINDS:
            print(f"hostile: {seeds} seeds need not have all kinds, {SEEDS_WITH_ALL_KINDS} do", flush=True)
            return
        never = [kind for kind in kinds.ALL if not self.actions.get(kind)]
        if seeds >= SEEDS_WITH_ALL_DEEDS:
            never += [deed for deed in kinds.DEEDS if not self.actions.get(f"deed/{deed}")]
        self.assertEqual(never, [], "never drawn")
        for family in kinds.FAMILIES:
            reached = sum(self.actions.get(f"{kind}/reached", 0) for kind in family)
            drawn = sum(self.actions.get(kind, 0) for kind in family)
            self.assertGreaterEqual(reached, REACHED_SHARE_MIN * drawn, family)
        # An attack that is refused at its first byte would never get there.
        for party in kinds.PARTIES:
            self.assertTrue(any(self.actions.get(f"{kind}/reached") for kind in kinds.ALL if kind.startswith(party)),
                            f"{party}: never reached")
        never = [kind for kind in kinds.ALL if self.actions.get(kind, 0) >= DRAWS_THAT_REACH
                 and not self.actions.get(f"{kind}/reached")]
        self.assertEqual(never, [], f"never reached in {DRAWS_THAT_REACH} draws and more")

    def counts_below(self, prefix):
        return {name.removeprefix(prefix): count for name, count in self.actions.items() if name.startswith(prefix)}

    def assert_nothing_leaked(self, before):
        """The sidecars close channels after the node agent has seen the attackers' end. That may take a moment."""
        self.wait_settled()

        def leaks():
            return {name: grown for name, usage in self.usages().items() if (grown := usage.growth_since(before[name]))}
        with contextlib.suppress(AssertionError):
            harness.wait_until(lambda: not leaks(), "no growth", SETTLE_SECONDS_MAX)
        self.assertEqual(leaks(), {}, self.current)

    def wait_settled(self):
        """Waits until the node agent has only the victims' devices."""
        self.wait_node(VICTIMS, "fairlead_node_broker_devices")


if __name__ == "__main__":
    plugin.main()
