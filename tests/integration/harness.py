"""Starts real proxies for tests, on free ports and in their own folder, and always stops them.

Environment:
  FAIRLEAD_BIN       the folder with fairlead-proxy and ctl/fairleadctl
  FAIRLEAD_SLOWNESS  as in tests/suite.py
  FAIRLEAD_VARIANT   direct (default), staged, workers, tcp, earned or confined: see VARIANTS
  FAIRLEAD_SHOW_LOGS show the logs of the proxies also of tests that pass
  FAIRLEAD_LOG_CHARACTERS  number of characters shown from the end of each log (default 8000)

A test fails if a proxy that it started ends by a signal, logs "assertion failed", or has a report of a
sanitizer in its stderr.
"""
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import confined
from metrics import Metrics
from node_broker import CRASH_WORDS, NodeBroker

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import SLOWNESS, main, seconds, wait_until  # pylint: disable=wrong-import-position,unused-import

# Configurations in which each test of streams runs.
VARIANTS = {
    "direct": {},  # from the socket into the peer's memory
    "staged": {"other_devices": {"staged": True}},  # through a send ring, as with an RNIC
    "workers": {"concurrency": 2},
    "tcp": {"smc": {"enabled": False}},  # the fallback
    "version1": {"smc": {"version": 1}},
    # frames first, then SMC-R
    "earned": {"smc": {"defer_bytes": "16KiB", "defer_turns": 4}},
    # direct, under the seccomp profile: a system call that the profile does not name ends the program. The proxies of
    # tests attach the programs on the cgroup themselves, for which the node side needs bpf.
    "confined": {},
}
VARIANT = os.environ.get("FAIRLEAD_VARIANT", "direct")
CONFINEMENT = [sys.executable, "-B", confined.__file__, "--kill", "--add=bpf", confined.PROFILE] if VARIANT == "confined" else ()
WAITS = re.compile("no broker has connected|the broker has not answered")  # BrokerConnector::error_text()
LOG_CHARACTERS_SHOWN = int(os.environ.get("FAIRLEAD_LOG_CHARACTERS", "8000"))


def programs():
    return Path(os.environ.get("FAIRLEAD_BIN", Path(__file__).parents[2] / "build/dev/proxy")).resolve()


def sanitized():
    """Whether the proxy was built with UBSan."""
    return b"__ubsan_" in (programs() / "fairlead-proxy").read_bytes()


def short_milliseconds():
    """Duration of a proxy timer that a test lets expire."""
    return int(400 * SLOWNESS)


def amount(count):
    """A number of bytes or of repetitions, for this build."""
    return max(1, int(count / SLOWNESS))


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket of the file system."""

    def __init__(self, path, timeout):
        super().__init__("fairlead", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Proxy:
    """One fairlead-proxy process. Tests query its Unix socket, which is independent of network namespaces."""

    def __init__(self, folder, name, config, environment=None, wrapper=(), limits=(), flags=()):
        self.name = name
        self.config = dict(config)
        program = programs() / "fairlead-proxy"
        if other := self.config.pop("other_devices", None):
            beside = programs() / "other_devices_proxy"  # in copies of the programs
            program = beside if beside.exists() else programs().parent / "tests/integration/other_devices_proxy"
            words = [word if value is True else f"{word}={value}" for word, value in other.items()]
            environment = {**(environment or {}), "OTHER_DEVICES": " ".join(words)}
        # A restarted proxy has a new log.
        count = len(list(Path(folder).glob(f"{name}.*.log")))
        self.log_path = Path(folder) / f"{name}.{count}.log"
        self.config_path = Path(folder) / f"{name}.yaml"
        self.config_path.write_text(json.dumps(self.config, indent=1))  # JSON is YAML
        self.expected_exit = 0
        self.addresses = {}

        def before_exec():
            for what, value in limits:
                resource.setrlimit(what, (value, value))

        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*wrapper, *CONFINEMENT, program, "-c", self.config_path, *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **(environment or {})}, preexec_fn=before_exec)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_ready(self):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n{self.log()}")
            return " event=ready " in self.log()
        wait_until(ready, f"{self.name} to become ready", 20)
        for name, address in re.findall(r"event=listening listener=(\S+) .*address=(\S+)", self.log()):
            self.addresses[name] = address
        places = re.findall(r"event=admin address=(\S+)", self.log())
        self.admin = next((place for place in places if not place.startswith(("unix:", "@"))), None)
        self.socket = next((place for place in places if place.startswith("unix:")), None)
        return self

    def wait_broker(self):
        """Until the broker has found the devices of all workers."""
        if self.socket is None:  # it is not in the file system, and may be in another network namespace
            return
        def found():
            rows = [row for row in self.get_json("/devices")["devices"] if row["kind"] == "shm"]
            return len(rows) >= self.config["concurrency"] and not any(WAITS.search(row["detail"]) for row in rows)
        wait_until(found, f"the broker to find {self.name}", 20)

    def address(self, listener):
        host, port = self.addresses[listener].rsplit(":", 1)
        return host.strip("[]"), int(port)

    def ask(self, method, path):
        connection = UnixConnection(self.socket.removeprefix("unix:"), seconds(10))
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        if not 200 <= answer.status < 300:
            raise AssertionError(f"{self.name}: {method} {path}: {answer.status} {body}")
        return body

    def get(self, path):
        return self.ask("GET", path)

    def get_json(self, path):
        return json.loads(self.get(path))

    def post(self, path):
        return self.ask("POST", path)

    def metrics(self):
        return Metrics(self.get("/metrics"))

    def smcr_connections(self):
        return self.metrics().connections("smcr")

    def ctl(self, *arguments):
        return json.loads(subprocess.run(
            [*CONFINEMENT, programs() / "ctl/fairleadctl", "--admin", self.socket, "-o", "json", *arguments],
            capture_output=True, text=True, check=True, timeout=seconds(10)).stdout)

    def resident_bytes(self):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def kill(self):
        self.expected_exit = -signal.SIGKILL
        self.process.kill()
        self.process.wait()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait_exit(self, timeout=10):
        return self.process.wait(timeout=seconds(timeout))

    def finish(self):
        """Stops the process; returns an error text, or None."""
        if self.process.poll() is None:
            self.terminate()
            try:
                self.wait_exit(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return f"{self.name} did not end after SIGTERM"
        if CRASH_WORDS.search(self.log()):
            return f"{self.name} reports a bug in itself"
        if self.process.returncode != self.expected_exit:
            return f"{self.name} ended with {self.process.returncode}, not {self.expected_exit}"
        return None


def listener(name, direction, upstream=None, listen="127.0.0.1:0", mode="static"):
    made = {"name": name, "direction": direction, "mode": mode, "listen": listen}
    if upstream is not None:
        made["upstream"] = join(upstream)
    return made


def join(address):
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def merge(base, changes):
    """Merges nested dictionaries; `changes` take precedence."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


class ProxyTest(unittest.TestCase):
    """A test with its own folder and proxies."""

    options = {}  # of every proxy that the test class starts
    waits_for_broker = True  # a proxy whose calls fail may never be found

    def setUp(self):
        if CONFINEMENT and (why := confined.why_not()):
            self.skipTest(why)
        self.folder = Path(tempfile.mkdtemp(prefix="fairlead-"))
        os.chmod(self.folder, 0o755)
        self.proxies = []
        self.broker = None  # the node's, from the first proxy on
        self.addCleanup(self._end)

    def _has_failed(self):
        # The flag of the outcome itself is True again while cleanups run.
        result = self._outcome.result
        return any(test is self for test, _ in [*result.errors, *result.failures])

    def _end(self):
        # Outbound proxies were started last and stop first, so that they notify their peers.
        problems = [problem for proxy in reversed(self.proxies) if (problem := proxy.finish())]
        if self.broker is not None and (problem := self.broker.finish()):
            problems.append(problem)
        if problems or self._has_failed() or os.environ.get("FAIRLEAD_SHOW_LOGS"):
            for proxy in self.proxies:
                print(f"--- {self.id()}: log of {proxy.name}\n{proxy.log()[-LOG_CHARACTERS_SHOWN:]}",
                      file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.assertEqual(problems, [])

    def base_config(self, listeners, name):
        # Proxies of other users also create their sockets there.
        place = self.folder / "run"
        place.mkdir(exist_ok=True)
        place.chmod(0o777)
        return {"concurrency": 1, "listeners": listeners,
                "admin": {"listen": "127.0.0.1:0", "socket": str(place / f"{name}.{len(self.proxies)}.sock")},
                "drain": {"timeout": "2s"},
                # Their timers must not expire because other programs use the processors.
                # Tests of SMC-R need no traffic to earn it. Those of frames set another value.
                "smc": {"handshake_timeout": "60s", "defer_bytes": 0}, "limits": {"dial_timeout": "60s"},
                "log": {"level": "debug"}}

    def start(self, name, listeners, options=None, **how):
        """Starts a proxy; `options` change its configuration, `how` goes to Proxy."""
        if self.broker is None:
            self.broker = NodeBroker()
        config = merge(self.base_config(listeners, name), self.broker.settings())
        for changes in (VARIANTS[VARIANT], self.options, options or {}):
            config = merge(config, changes)
        proxy = Proxy(self.folder, name, config, **how)
        self.proxies.append(proxy)
        proxy.wait_ready()
        shm = config["devices"]["shm"]
        if self.waits_for_broker and config["smc"].get("enabled", True) and shm.get("enabled", True) and shm["broker"] == self.broker.name:
            proxy.wait_broker()
        return proxy

    def start_pair(self, application, client=None, server=None):
        """Two proxies in a row towards `application`; self.entry is the address to connect to."""
        self.inbound = self.start("in", [listener("in", "inbound", application)], server)
        self.outbound = self.start(
            "out", [listener("out", "outbound", self.inbound.address("in"))], client)
        self.entry = self.outbound.address("out")
        return self.outbound, self.inbound

    def assert_smcr(self, *proxies, at_least=1):
        """Checks that all connections so far used SMC-R."""
        for proxy in proxies or self.proxies:
            metrics = proxy.metrics()
            self.assertEqual(metrics.fallbacks(), {}, proxy.name)
            self.assertEqual(metrics.connections("tcp"), 0, proxy.name)
            self.assertGreaterEqual(metrics.connections("smcr"), at_least, proxy.name)

    def assert_carried(self, at_least=1):
        """Checks that all connections used the transport of the variant, on all proxies."""
        if VARIANT == "earned":
            for proxy in self.proxies:
                metrics = proxy.metrics()
                self.assertEqual(metrics.fallbacks(), {}, proxy.name)
                self.assertEqual(metrics.connections("tcp"), 0, proxy.name)
                # A short one is counted when it has ended.
                wait_until(lambda p=proxy: sum(p.metrics().connections(name) for name in ("smcr", "short"))
                           >= at_least, f"{at_least} connections of {proxy.name}")
            return None
        if VARIANT != "tcp":
            return self.assert_smcr(at_least=at_least)
        for proxy in self.proxies:
            metrics = proxy.metrics()
            self.assertEqual(metrics.connections("smcr"), 0, proxy.name)
            self.assertGreaterEqual(metrics.connections("tcp"), at_least, proxy.name)
            self.assertEqual(list(metrics.fallbacks()), [("disabled", "local")], proxy.name)

    def wait_idle(self, *proxies):
        """Waits until no connection is left and no buffer is in use."""
        for proxy in proxies or self.proxies:
            def idle():
                metrics = proxy.metrics()
                return metrics.active() == 0 and proxy.get_json("/connections")["connections"] == [] \
                    and metrics.value("fairlead_rmb_bytes", state="used") == 0
            try:
                wait_until(idle, f"the connections of {proxy.name} to end")
            except AssertionError as error:
                metrics = proxy.metrics()
                raise AssertionError(f"{error}; left are {proxy.get('/connections')}, active {metrics.active()}, used bytes of RMBs "
                                     f"{metrics.value('fairlead_rmb_bytes', state='used')}") from error

    def wait_fallback(self, proxy, reason, side="local", count=1):
        wait_until(lambda: proxy.metrics().fallbacks().get((reason, side), 0) >= count,
                   f"{count} fallbacks {reason} ({side}) at {proxy.name}; "
                   f"there are {proxy.metrics().fallbacks()}")
        self.assertEqual(proxy.metrics().fallbacks(), {(reason, side): count}, proxy.name)
