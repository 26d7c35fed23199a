"""Goal: whatever pods say to the node agent, the agent lives, and other pods notice nothing. Method: one real
fairlead-node with a fake API server and a fake container runtime, an honest pair of pods with real sidecars and
lasting connections, and hostile pods whose processes have the sidecar's user id. For each seed each hostile pod has a
session of random steps over all sockets at which the agent meets a pod: agent_pod.py and agent_steps.py. Meanwhile
something happens to the honest pair, to the agent or to a hostile pod: EVENTS.

Asserted for each seed: the agent lives and logs no bug of its own, and no connection of the honest pair fails or
hangs. A sidecar that is replaced parks its connections, or says why not and drains. The agent ends in time when it is
told to, and leaves nothing connected to a pod that has ended. For all seeds together: the longest gap of the pair is
at most GAP_RATIO_MAX times that of controls without attackers, most replaced sidecars have parked, and once the
hostile pods are gone, descriptors, threads and memory of the agent are as before. With SEEDS_WITH_ALL_KINDS seeds and
more, each kind of step, file and event was drawn, and each step got as far as it is meant to.

What the agent keeps of a pod, and the delays that a pod has earned, last longer than a seed. So a failure is repeated
with some seeds before it: the message has the words for that.

Environment:
  AGENT_SEEDS         number of seeds (default 40, or 15 with sanitizers), the last line counts them
  AGENT_FIRST_SEED    the first one (default 1)
  AGENT_HOSTILE_PODS  number of hostile pods (default 3)
  AGENT_VERBOSE       shows what each seed did
"""
import contextlib
import json
import math
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(1, str(HERE.parent / "cni"))

import agent_steps  # pylint: disable=wrong-import-position
import brokered  # pylint: disable=wrong-import-position
import nri_runtime  # pylint: disable=wrong-import-position
import plugin  # pylint: disable=wrong-import-position
import resources  # pylint: disable=wrong-import-position
import strange_files  # pylint: disable=wrong-import-position
import wired  # pylint: disable=wrong-import-position
from fake_api_server import FakeApiServer  # pylint: disable=wrong-import-position
from wired import harness  # pylint: disable=wrong-import-position

SEEDS = int(os.environ.get("AGENT_SEEDS", 15 if harness.sanitized() else 40))
FIRST_SEED = int(os.environ.get("AGENT_FIRST_SEED", "1"))
HOSTILE_PODS = int(os.environ.get("AGENT_HOSTILE_PODS", "3"))
VERBOSE = bool(os.environ.get("AGENT_VERBOSE"))

# Of each round of seeds, in an order that is drawn. The others are seeds without an event.
EVENTS = {"replace_server": 4, "replace_client": 4, "stop_agent": 2, "renew_pod": 4, "create_container": 4,
          "restart_agent": 1, "stop_and_replace": 1, "restart_and_replace": 1}
SEEDS_PER_ROUND = 50
SEEDS_REPEATED = 20
SESSION_SECONDS = 0.25
SEEDS_PER_CONTROL = 25
CONTROL_SECONDS = 1.0
SETTLED_SECONDS = 0.3

HONEST = {"honest-server", "honest-client"}
PORT = 7000
LASTING_CONNECTIONS = 8
DESCRIPTORS_OF_PROCESS = 8192  # of the pods' processes: what the user may have in flight
GAP_RATIO_MAX = 2.0
# Shorter gaps come from the scheduler, on a machine with more programs than processors.
GAP_MS_FLOOR = 200 * max(1.0, harness.SLOWNESS)
REPLACED_GAP_MS_MAX = 1000 * max(1.0, harness.SLOWNESS)
# A sidecar that finds the addresses of one that has drained still taken waits for the keeper: hand_over.wait.
DRAINED_GAP_MS_MAX = 6000 * max(1.0, harness.SLOWNESS)
STOPPED_SECONDS_MAX = 0.3
END_SECONDS_MAX = 5 * max(1.0, harness.SLOWNESS)
ANSWER_SECONDS = 2  # of the honest pair's client, and of a pod's processes
# After its start the agent needs some time to find the sidecars. One that ends before that drains.
FINDING_SECONDS = 2 * max(1.0, harness.SLOWNESS)
FORGOTTEN_SECONDS = 3 * max(1.0, harness.SLOWNESS)
DRAIN_SECONDS = 0.9  # of drain.timeout
ALWAYS, NEVER = 0.0, math.inf  # times from which on connections may fail
SHORT = "short connection"
WRONG_BYTES = re.compile("wrong bytes|nobody asked for")
PARKED_SHARE_MIN = 0.5
REPLACED_THAT_TELL = 8
GHOSTS_MAX = 4  # pods that have ended, with processes that live on
SEEDS_WITH_ALL_KINDS = 100
DRAWS_THAT_REACH = 20
# Growth of the agent that is no leak: caches, the allocator, a late thread.
GROWN_DESCRIPTORS_MAX = 8
GROWN_THREADS_MAX = 2
GROWN_BYTES_MAX = (24 << 20) * max(1.0, harness.SLOWNESS)
SETTLE_SECONDS_MAX = 2
SIDECAR = {**brokered.BY_BROKER, "hand_over": {"socket": "@fairlead-keeper", "settle": f"{harness.seconds(1):g}s"},
           "admin": {"socket": "@fairlead-admin"}, "drain": {"timeout": "1s"}, "log": {"level": "info"}}


class Usage:
    """What the agent holds. Its threads may have tables of descriptors of their own."""

    def __init__(self, pid):
        tasks = Path(f"/proc/{pid}/task")
        tables = set()
        self.threads = 0
        for task in list(tasks.iterdir()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                tables.add(frozenset(self.table(task / "fd")))
                self.threads += 1
        self.descriptors = sum(map(len, tables))
        status = (tasks.parent / "status").read_text(encoding="utf-8")
        self.resident = resources.resident_bytes(status)

    @staticmethod
    def table(folder):
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                yield name, os.readlink(folder / name)

    def growth_since(self, before):
        return resources.growth(before, self, {"descriptors": GROWN_DESCRIPTORS_MAX, "threads": GROWN_THREADS_MAX,
                                               "resident": GROWN_BYTES_MAX})


class Api(FakeApiServer):
    """Takes reports and Events, and has no pods."""

    report, reports, events = None, 0, 0

    def answer(self, method, path, body):
        url = urllib.parse.urlsplit(path)
        if (method, url.path) == ("GET", "/api/v1/pods"):
            return 200, self.page("PodList", [], dict(urllib.parse.parse_qsl(url.query)))
        if method in ("PUT", "POST") and "/configmaps" in url.path:
            self.report, self.reports = body, self.reports + 1
            return 200, {}
        if method == "POST" and url.path.endswith("/events"):
            self.events += 1
            return 201, {}
        return 404, {}

    def answering(self):
        """Names of the pods whose sidecars have answered, in the latest report."""
        with self.lock:
            report = json.loads(json.loads(self.report)["data"]["status.json"]) if self.report else {"pods": []}
        return {pod["name"] for pod in report["pods"] if pod["answers"]}


class HostilePod:
    """A pod, and its process that gets commands."""

    def __init__(self, pod, program):
        self.pod = pod
        join = f'ulimit -n {DESCRIPTORS_OF_PROCESS} && echo $$ > {pod.cgroup}/cgroup.procs && exec "$@"'
        self.process = subprocess.Popen(
            ["nice", "-n", "19", "sh", "-c", join, "sh", *pod.command(*resources.HOSTILE_USER, sys.executable, "-B", program)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def begin(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def answer(self, seconds):
        return json.loads(read_line(self.process, seconds) or '{"silent": 1}')

    def end(self):
        """All its processes end."""
        harness.wait_until(self.killed, "its processes to end")
        self.process.stdin.close()
        self.process.stdout.close()
        self.pod.close()

    def killed(self):
        """Signals more than once: a close that lingers at the end of a process goes on at the next one."""
        processes = [int(pid) for pid in (self.pod.cgroup / "cgroup.procs").read_text(encoding="ascii").split()]
        if self.process.poll() is None:
            processes.append(self.process.pid)
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not processes


def read_line(process, seconds):
    """Nothing if it says nothing in time."""
    ready = select.select([process.stdout], [], [], harness.seconds(seconds))[0]
    return process.stdout.readline() if ready else ""


def event_of(seed):
    events = [name for name, count in EVENTS.items() for _ in range(count)]
    events += ["none"] * (SEEDS_PER_ROUND - len(events))
    random.Random(seed // SEEDS_PER_ROUND).shuffle(events)
    return events[seed % SEEDS_PER_ROUND]


class HostilePods(brokered.BrokerTest):
    def setUp(self):
        self.sockets = Path(tempfile.mkdtemp(prefix="nri-"))  # a short path
        self.addCleanup(shutil.rmtree, self.sockets, ignore_errors=True)
        accounts = Path(tempfile.mkdtemp(prefix="fairlead-api-"))
        self.addCleanup(shutil.rmtree, accounts, ignore_errors=True)
        self.api = Api(accounts / "account", "secret")
        self.addCleanup(self.api.close)
        self.runtime = nri_runtime.Runtime(self.sockets / "nri.sock", harness.seconds(20))
        self.addCleanup(self.runtime.stop)
        super().setUp()
        shutil.copytree(HERE, self.binaries / "hostile", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE.parent / "keeper_record.py", self.binaries)
        subprocess.run(["chmod", "-R", "a+rX", self.binaries], check=True)
        self.counts, self.ghosts, self.names = {}, [], 0
        self.log_read = 0
        self.strays = {}  # connections that have passed the server's sidecar, by process of the client's
        self.replaced = self.parked = self.drained = 0
        self.before = NEVER, False  # what check() was told of the last seed
        self.current = "start"
        self.server_pod, self.client_pod = self.make_pod("honest-server"), self.make_pod("honest-client")
        for pod in (self.server_pod, self.client_pod):
            self.addCleanup(self.remove, pod)
        self.proxy = {"server": self.sidecar(self.server_pod, "server", SIDECAR),
                      "client": self.sidecar(self.client_pod, "client", SIDECAR)}
        self.wait_node(2, "fairlead_node_keeper_sidecars")
        self.start_application(self.server_pod, HERE / "innocent.py", "serve", str(PORT))
        self.client = self.start_application(self.client_pod, HERE / "lasting.py", self.server_pod.address(), str(PORT),
                                             str(LASTING_CONNECTIONS))

    def start_agent(self, *wrapper):
        self.logs += 1
        self.log_read = 0
        self.agent_log = self.folder / f"node{self.logs}.log"
        conf = self.run_dir / "net.d"
        with open(self.agent_log, "wb") as log:
            agent = self.spawn(
                [*wrapper, *plugin.with_rights_of_the_chart(
                    brokered.NODE, "run", "--conf-dir", conf, "--bin-dir", self.run_dir / "bin",
                    "--run-dir", self.run_dir, "--plugin", plugin.PLUGIN, "--listen", "127.0.0.1:0",
                    "--node-name", "n1", "--report-status", "--report-interval", "0.2", "--report-namespace", "fl",
                    "--fallback-events", "--check-interval", "0.5", "--cgroup-root", plugin.cgroup_root(),
                    "--repair", "--repair-from", "api", "--api-interval", "0.5", "--nri-socket", self.runtime.path)],
                stdout=log, stderr=log, env={**os.environ, **self.api.environment()})
        self.agent_began = time.monotonic()
        self.containers = self.runtime.connection()
        self.containers.accept()

        def address():
            text = self.agent_log.read_text()
            self.assertIsNone(agent.poll(), text)
            return " node event=ready" in text and re.search(r"event=listening address=(\S+)", text)
        self.node_address = harness.wait_until(address, "fairlead-node", 20).group(1)
        return agent

    def start(self, name, listeners, options=None, **how):
        how["limits"] = ((resource.RLIMIT_NOFILE, DESCRIPTORS_OF_PROCESS),)
        return super().start(name, listeners, options, **how)

    def make_pod(self, name):
        pod = wired.WiredPod()
        pod.inside("ip", "link", "set", "lo", "up")
        pod.result = self.call_bridge("ADD", pod)
        self.good("ADD", pod, plugin.IN, cniVersion="1.0.0",
                  env={"CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name}"})
        return pod

    def hostile_pod(self):
        self.names += 1
        made = HostilePod(self.make_pod(f"hostile-{self.names}"), str(self.binaries / "hostile/agent_pod.py"))
        self.addCleanup(self.clean_up, made)
        self.assertEqual(read_line(made.process, ANSWER_SECONDS), "ready\n")
        return made

    def clean_up(self, hostile):
        if hostile.pod.cgroup.exists():
            self.forget(hostile.pod)
            hostile.end()

    def forget(self, pod):
        """The runtime says that the pod has ended."""
        self.good("DEL", pod, cniVersion="1.0.0")
        self.call_bridge("DEL", pod)
        subprocess.run(["ip", "netns", "del", pod.name], check=False, capture_output=True)

    def tell_client(self, command):
        self.client.stdin.write(command + "\n")
        self.client.stdin.flush()
        answer = read_line(self.client, ANSWER_SECONDS)
        self.assertNotEqual(answer, "", f"the honest client hangs or has ended: {self.current}")
        return answer

    def client_report(self):
        report = json.loads(self.tell_client("end"))
        self.tell_client("begin")
        return report

    # --- what happens meanwhile ---

    def replace(self, which, excused=False):
        """A sidecar of the honest pair. Returns from when on its connections may fail; `excused`: always."""
        old = self.proxy[which]
        self.replaced += 1
        excused = excused or time.monotonic() - self.agent_began < FINDING_SECONDS
        began = time.monotonic()
        old.terminate()
        self.assertEqual(old.wait_exit(), 0, f"{which}: {self.current}")
        pod = self.server_pod if which == "server" else self.client_pod
        successor = self.proxy[which] = self.sidecar(pod, which, SIDECAR)
        self.assertIsNone(old.finish(), self.current)
        self.proxies.remove(old)
        if "event=parked " in old.log() and "event=taken_back" in successor.log():
            self.parked += 1
            return ALWAYS if excused else NEVER
        # One that had begun to park would reset its connections.
        drained = " WARN hand_over event=not_parked" in old.log()
        self.assertTrue(excused or drained, f"{which} has neither parked nor drained: {self.current}\n"
                        f"{old.log()[-2000:]}\n{successor.log()[:2000]}\n{self.log_end()}")
        self.drained += 1
        return ALWAYS if excused else began + DRAIN_SECONDS

    def stop_agent(self, rng, during=lambda: None):
        self.agent.send_signal(signal.SIGSTOP)
        try:
            during()
            time.sleep(rng.uniform(0.02, STOPPED_SECONDS_MAX))
        finally:
            self.agent.send_signal(signal.SIGCONT)

    def restart_agent(self, during=lambda: None):
        self.check_agent()
        self.agent.terminate()
        during()
        try:
            code = self.agent.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.fail(f"fairlead-node goes on {END_SECONDS_MAX:g} s after SIGTERM: {self.current}\n{self.log_end()}")
        self.check_log()
        self.assertEqual(code, 0, f"{self.current}\n{self.log_end()}")
        self.agent = self.start_agent()

    def renew_pod(self, rng):
        """A hostile pod ends, and another one comes. What the first one's processes hold may live on."""
        index = rng.randrange(len(self.hostile))
        old = self.hostile[index]
        self.forget(old.pod)
        return index, old, rng.random() < 0.5

    def end_pod(self, old, lives_on):
        old.begin({"ended": FORGOTTEN_SECONDS})
        answer = old.answer(ANSWER_SECONDS + FORGOTTEN_SECONDS)
        self.assertEqual(answer, {"connected": []}, f"left connected to a pod that has ended: {self.current}")
        if lives_on:
            self.ghosts.append(old)
        else:
            old.end()
        if len(self.ghosts) > GHOSTS_MAX:
            self.ghosts.pop(0).end()

    def create_container(self, rng):
        """The runtime asks, with what a pod may choose."""
        pod = rng.choice(self.hostile).pod
        sandbox = rng.choice(("a" * 64, "".join(rng.choices(string.printable, k=rng.randint(0, 80)))))
        message = nri_runtime.pod_message(
            sandbox, "".join(rng.choices(string.printable, k=9)), rng.choice(("default", "")), str(rng.random()),
            {rng.choice((*plugin.IN, "x")): "".join(rng.choices(string.printable, k=rng.choice((0, 7, 900))))},
            rng.choice((pod.path, "/proc/1/ns/net", "/", None)))
        container = nri_runtime.container_message(
            sandbox, rng.choice(("fairlead-proxy", "app", "")), rng.choice((2201, 0, None)),
            args=rng.choice((nri_runtime.ARGS, [], ["x" * 900])), env=["A=b", "=", "LD_PRELOAD=/x"][:rng.randint(0, 3)],
            memory=rng.choice((0, 1, 1 << 62)), pid=rng.choice((0, 1, pod_pid(rng.choice(self.hostile)))))
        made = self.containers.create(message, container)
        self.assertEqual((made.devices, made.rlimits), ([], []), self.current)

    # --- one seed ---

    def run_seed(self, seed):
        rng = random.Random(seed)
        event = event_of(seed)
        first = max(FIRST_SEED, seed - SEEDS_REPEATED)
        self.current = f"AGENT_FIRST_SEED={first} AGENT_SEEDS={seed - first + 1} (seed {seed}, {event})"
        for hostile in self.hostile:
            hostile.begin({"seed": rng.getrandbits(64), "seconds": SESSION_SECONDS})
        time.sleep(rng.uniform(0, SESSION_SECONDS / 2) if event != "none" else 0)
        ended = None
        may_fail, replaces = NEVER, "replace" in event
        which = event.removeprefix("replace_") if event.startswith("replace_") else rng.choice(("server", "client"))
        if event.startswith("replace_"):
            may_fail = self.replace(which)
        elif event == "stop_agent":
            self.stop_agent(rng)
        elif event == "stop_and_replace":
            self.stop_agent(rng, self.proxy[which].terminate)
            may_fail = self.replace(which, True)
        elif event == "restart_agent":
            self.restart_agent()
        elif event == "restart_and_replace":
            self.restart_agent(self.proxy[which].terminate)
            may_fail = self.replace(which, True)
        elif event == "renew_pod":
            ended = self.renew_pod(rng)
        elif event == "create_container":
            self.create_container(rng)
        self.count({f"event/{event}": 1})
        for hostile in self.hostile:
            answer = hostile.answer(ANSWER_SECONDS)
            failed = answer.keys() & {"silent", "crashed", "late"}
            self.assertEqual(failed, set(), f"the session of a hostile pod: {self.current}")
            self.count(answer)
        if ended:
            index, old, lives_on = ended
            self.check_agent()
            self.end_pod(old, lives_on)
            self.hostile[index] = self.hostile_pod()
        self.check(may_fail, replaces)

    def count(self, counts):
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def check(self, may_fail=NEVER, replaces=False):
        """What the seed has done. `may_fail`: the time from which on connections of the honest pair may."""
        self.check_agent()
        # An answer that was late because of the seed before counts for that.
        now = may_fail, replaces
        may_fail, replaces = min(may_fail, self.before[0]), replaces or self.before[1]
        self.before = now
        for name, proxy in self.proxy.items():
            self.assertIsNone(proxy.process.poll(), f"the sidecar of the {name} has ended: {self.current}")
        report = self.client_report()
        if VERBOSE:
            print(f"  {self.current}: {report}", flush=True)
        # While a sidecar is replaced, a connection that was just accepted may be reset: docs/hand-over.md.
        errors = [error for error in report["errors"] if float(error.split()[-1]) < may_fail
                  and not (replaces and error.startswith(SHORT))]
        self.assertEqual(self.without_strays(errors), [], f"the honest pair: {self.current}\n{self.log_end()}")
        gap = max(report["longest_gap_ms"], report["hanging_ms"])
        if replaces:
            self.replaced_gap = max(self.replaced_gap, gap)
        else:
            self.gap = max(self.gap, gap)
        limit = DRAINED_GAP_MS_MAX if replaces and may_fail < NEVER else REPLACED_GAP_MS_MAX
        self.assertLessEqual(gap, limit, f"the honest pair: {self.current}\n{self.log_end()}")

    def without_strays(self, errors):
        """After resets, a connection may have the port of one that was reset, and pass the server's sidecar by its
        stale translation. The application then answers the handshake of the client's sidecar, which counts that."""
        if not errors:
            return []
        found = [error for error in errors if error.startswith(SHORT) and WRONG_BYTES.search(error)]
        counted = self.fallbacks().get("malformed_clc", 0) - self.strays.get(self.proxy["client"].pid, 0)
        if not found or counted < len(found) or len(found) < len(errors):
            return errors
        self.strays[self.proxy["client"].pid] = self.strays.get(self.proxy["client"].pid, 0) + len(found)
        return []

    def fallbacks(self):
        """How many of each reason the sidecar of the client has seen."""
        with self.client_pod.namespace(), socket.socket(socket.AF_UNIX) as admin:
            admin.settimeout(harness.seconds(ANSWER_SECONDS))
            admin.connect("\0fairlead-admin")
            admin.sendall(b"GET /fallbacks HTTP/1.1\r\nHost: fairlead\r\nConnection: close\r\n\r\n")
            with admin.makefile("rb") as answer:
                rows = json.loads(answer.read().split(b"\r\n\r\n", 1)[1])["fallbacks"]
        counts = {}
        for row in rows:
            counts[row["reason"]] = counts.get(row["reason"], 0) + row["count"]
        return counts

    def check_agent(self):
        if self.agent.poll() is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.agent.wait(1)
            self.fail(f"fairlead-node has ended with {self.agent.returncode}: {self.current}\n{self.log_end()}")
        self.check_log()

    def check_log(self):
        with open(self.agent_log, "rb") as log:
            log.seek(self.log_read)
            text = log.read().decode(errors="replace")
            self.log_read = log.tell()
        self.assertIsNone(harness.CRASH_WORDS.search(text), f"{self.current}\n{self.log_end()}")

    def log_end(self):
        return self.agent_log.read_text(errors="replace")[-harness.LOG_CHARACTERS_SHOWN:]

    # --- all seeds ---

    def control(self):
        """The gap of the pair while harmless programs use the processors as much."""
        time.sleep(SETTLED_SECONDS)
        self.check()
        resources.burn(CONTROL_SECONDS, len(self.hostile))
        report = self.client_report()
        self.assertEqual(self.without_strays(report["errors"]), [], f"control after {self.current}")
        return max(report["longest_gap_ms"], report["hanging_ms"])

    def test_honest_pair_does_not_notice(self):
        self.gap = self.replaced_gap = control = 0.0
        self.hostile = []
        harness.wait_until(lambda: self.api.answering() == HONEST, "the report on the honest pair")
        time.sleep(1)
        before = Usage(self.agent.pid)
        self.hostile = [self.hostile_pod() for _ in range(HOSTILE_PODS)]
        began = time.monotonic()
        for done, seed in enumerate(range(FIRST_SEED, FIRST_SEED + SEEDS)):
            if done % SEEDS_PER_CONTROL == 0:
                control = max(control, self.control())
                print(f"agent: {done} of {SEEDS} seeds, {time.monotonic() - began:.0f} s, "
                      f"longest gap {self.gap:.0f} ms, control {control:.0f} ms, "
                      f"replaced {self.replaced_gap:.0f} ms", flush=True)
            self.run_seed(seed)
        seconds = time.monotonic() - began
        self.current = "after the last seed"
        self.assert_nothing_stays(before)
        self.report_kinds()
        self.assertLessEqual(self.gap, max(GAP_RATIO_MAX * control, GAP_MS_FLOOR))
        if self.replaced >= REPLACED_THAT_TELL:
            self.assertGreaterEqual(self.parked, PARKED_SHARE_MIN * self.replaced, "sidecars that have parked")
        steps = sum(self.counts.get(name, 0) for name in agent_steps.NAMES)
        kinds = sum(1 for name in agent_steps.NAMES if self.counts.get(name))
        print(f"agent: OK seeds={SEEDS} pods={HOSTILE_PODS} steps={steps} kinds={kinds} replaced={self.replaced} "
              f"parked={self.parked} drained={self.drained} strays={sum(self.strays.values())} "
              f"longest_gap_ms={self.gap:.0f} control_ms={control:.0f} replaced_gap_ms={self.replaced_gap:.0f} "
              f"reports={self.api.reports} seconds_per_seed={seconds / SEEDS:.2f}", flush=True)

    def assert_nothing_stays(self, before):
        for hostile in self.hostile:
            self.forget(hostile.pod)
        for hostile in self.hostile:
            self.end_pod(hostile, False)
        for ghost in self.ghosts:
            ghost.end()
        grown = None

        def settled():
            nonlocal grown
            grown = Usage(self.agent.pid).growth_since(before)
            return not grown
        with contextlib.suppress(AssertionError):
            harness.wait_until(settled, "no growth", SETTLE_SECONDS_MAX)
        self.assertEqual(grown, [], f"the agent has grown\n{self.log_end()}")
        self.check()
        # A report without the honest pair would be one that others have kept from it.
        harness.wait_until(lambda: self.api.answering() == HONEST, "the report on the honest pair")

    def report_kinds(self):
        wanted = [*agent_steps.NAMES, *(f"file/{kind}" for kind in strange_files.KINDS),
                  *(f"event/{event}" for event in EVENTS)]
        others = {name: count for name, count in sorted(self.counts.items())
                  if name not in wanted and not name.endswith("/reached")}
        for name in wanted:
            reached = f" reached={self.counts.get(f'{name}/reached', 0)}" if name in agent_steps.STEPS else ""
            print(f"agent: {name} drawn={self.counts.get(name, 0)}{reached}", flush=True)
        print(f"agent: others {json.dumps(others)}", flush=True)
        if SEEDS < SEEDS_WITH_ALL_KINDS:
            print(f"agent: {SEEDS} seeds need not have all kinds, {SEEDS_WITH_ALL_KINDS} do", flush=True)
            return
        self.assertEqual([name for name in wanted if not self.counts.get(name)], [], "never drawn")
        never = [name for name in agent_steps.NAMES if self.counts[name] >= DRAWS_THAT_REACH
                 and not self.counts.get(f"{name}/reached")]
        self.assertEqual(never, [], f"never reached in {DRAWS_THAT_REACH} draws and more")


def pod_pid(hostile):
    return hostile.process.pid


if __name__ == "__main__":
    plugin.main()
