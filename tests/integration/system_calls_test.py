"""Goal: a connection costs the proxy no more system calls than docs/benchmarks.md says. Method: two pods, a proxy in
each, redirected connections whose application sees the client's address. strace counts the calls of the workers for
connections that follow one another. Nothing is timed."""
import collections
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

import peers
from harness import main
from pod_pair import SERVER, Pods

CONNECTIONS = 40
TRACES = 5
SHORT_CONNECTION_MAX = 24
REQUEST_MAX = 6
WARM_UP = 20  # requests, until the connection has lasted
MESSAGE = b"m" * 64
FRAMES = {"smc": {"defer_bytes": "64KiB"}}
LINE = re.compile(r"^(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()")


class Trace:
    """The system calls of a proxy's worker, as strace lists them."""

    def __init__(self, proxy, path):
        self.path = path
        self.worker = worker_of(proxy.pid)
        self.strace = subprocess.Popen(
            ["strace", "-f", "-o", path, "-p", str(proxy.pid)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.strace.stderr:
            if "attached" in line:
                return
        raise AssertionError("strace has not attached")

    def end(self):
        self.strace.send_signal(signal.SIGINT)
        self.strace.communicate(timeout=30)

    def calls(self):
        """Names of the worker's calls, in order."""
        names = []
        for line in Path(self.path).read_text(errors="replace").splitlines():
            match = LINE.match(line)
            if match and int(match.group(1)) == self.worker and match.group(3):
                names.append(detailed(match.group(3), line))
        return names


def detailed(name, line):
    """With the option or operation where one call does several things."""
    if name in ("setsockopt", "getsockopt"):
        return f"{name} {line.split(', ')[2]}"
    if name == "epoll_ctl":
        return f"{name} {line.split(', ')[1].removeprefix('EPOLL_CTL_')}"
    return name


def worker_of(pid):
    """The thread of the only worker; threads that it started have its name and later numbers."""
    for task in sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name)):
        if (task / "comm").read_text().strip() == "fairlead-w0":
            return int(task.name)
    raise AssertionError("the proxy has no worker")


class SystemCalls(Pods):
    def setUp(self):
        super().setUp()
        if shutil.which("strace") is None:
            raise unittest.SkipTest("strace is not installed")

    def answer(self, sock):
        while request := sock.recv(len(MESSAGE)):
            sock.sendall(request)

    def start_both(self, **options):
        self.redirect()
        self.server = self.serve("0.0.0.0", self.answer)
        self.start_pods(options=options)

    def connect(self):
        with self.namespace(self.names[0]):
            return peers.connect((SERVER, self.server.address[1]))

    def exchange(self, sock, count=1):
        for _ in range(count):
            peers.assert_echo(sock, MESSAGE)

    def short_connection(self):
        with self.connect() as sock:
            self.exchange(sock)

    def trace(self, action):
        """Calls of each side for CONNECTIONS times the action: {side: Counter}."""
        traces = [(proxy.name, Trace(proxy, self.folder / f"{proxy.name}.strace"))
                  for proxy in (self.outbound, self.inbound)]
        for _ in range(CONNECTIONS):
            action()
        for _, trace in traces:
            trace.end()
        return {side: collections.Counter(trace.calls()) for side, trace in traces}

    def check(self, action, budget):
        # A busy machine wakes a worker once for each event, where one wait could have fetched two.
        traces = [self.trace(action) for _ in range(TRACES)]
        for side in traces[0]:
            calls = min((trace[side] for trace in traces), key=lambda calls: calls.total())
            # The wait in which strace found the worker, and the one in which it left it.
            total = calls.total() - 2
            table = "\n".join(f"{number / CONNECTIONS:6.2f} {name}"
                              for name, number in calls.most_common())
            with self.subTest(side):
                self.assertLessEqual(total, budget * CONNECTIONS, f"{side}, for each of them\n{table}")

    def check_short_connections(self):
        for _ in range(3):
            self.short_connection()
        self.check(self.short_connection, SHORT_CONNECTION_MAX)

    def test_short_connection(self):
        self.start_both(**FRAMES)
        self.check_short_connections()
        self.assertEqual(self.outbound.metrics().connections("smcr"), 0)

    def test_short_connection_of_the_fallback(self):
        self.start_both(smc={"enabled": False})
        self.check_short_connections()

    def check_requests(self, transport, **options):
        """A request is read and written by each proxy, and so is its answer; each read follows one wait."""
        self.start_both(latency={"spin": "0us"}, **options)
        with self.connect() as sock:
            self.exchange(sock, WARM_UP)
            self.check(lambda: self.exchange(sock), REQUEST_MAX)
            rows = self.outbound.get_json("/connections")["connections"]
            self.assertEqual([row["transport"] for row in rows], [transport])

    def test_request_over_tcp(self):
        self.check_requests("tcp", smc={"enabled": False})

    def test_request_in_frames(self):
        self.check_requests("short", smc={"defer_bytes": "64KiB", "defer_turns": 1000, "defer_time": "1h"})

    def test_request_over_smcr(self):
        self.check_requests("smcr")


main()
