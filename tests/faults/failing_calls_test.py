"""Goal: if any system call fails, no byte is lost or changed, and no process hangs or aborts. Each connection
continues, becomes TCP or is reset at both ends. Method: two proxies with the library of failing_calls.c loaded. In
each round one call of one proxy fails while connections exchange data in both directions.

Environment: as in tests/integration/harness.py, and
  FAIRLEAD_FAULTS_LIBRARY  the library
  FAIRLEAD_FAULT_ROUNDS    how many rounds (default 150; "all": every call, error and turn up to TURNS_MAX)
  FAIRLEAD_FAULT_SEED      which of them, and which data
  FAIRLEAD_FAULT_ONLY      a single call, to look at its failures
"""
import os
import random
import socket
import struct
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "integration"))

import peers
from failing_calls import ERRORS, Table, all_failures
from harness import VARIANT, ProxyTest, listener, main, programs, seconds

LIBRARY = os.environ["FAIRLEAD_FAULTS_LIBRARY"]
ROUNDS = os.environ.get("FAIRLEAD_FAULT_ROUNDS", "150")
SEED = int(os.environ.get("FAIRLEAD_FAULT_SEED", "1"))
ONLY = os.environ.get("FAIRLEAD_FAULT_ONLY", "")
TURNS_MAX = 12
CONNECTIONS = 6
BYTES_MAX = 200_000
HEADER = struct.Struct(">IQ")  # the number of a connection, and how many bytes follow
# Calls that the proxies of this test make rarely or never, so an injected failure of them tests nothing. Memory is
# reserved under strict overcommit only; urgent data, a log pipe, and the admin socket are not used.
NEVER_MADE = {("fallocate", "any"), ("read", "pipe"), ("recv", "tcp"), ("recv", "unix"), ("write", "pipe"),
              ("writev", "tcp")}
ONLY_OVER_SMC = {("ftruncate", "any"), ("getrandom", "any"), ("recvmsg", "unix")}
ONLY_OVER_TCP = {("splice", "pipe"), ("splice", "tcp")}
NOT_MADE = NEVER_MADE | (ONLY_OVER_SMC if VARIANT == "tcp" else ONLY_OVER_TCP)
LOST = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)


class Talk:
    """One connection: the client sends bytes and FIN, the server echoes them and sends FIN."""

    def __init__(self, number, seed):
        self.number = number
        generator = random.Random(seed)
        self.data = HEADER.pack(number, 0) + generator.randbytes(generator.choice((0, 1, 3000, BYTES_MAX)))
        self.replies = []  # of every server that received a part of it

    def run(self, address):
        """"complete" or "reset"; anything else is a bug."""
        try:
            with peers.connect(address) as sock:
                own = sock.getsockname()
                sender = peers.Task(self.send, sock)
                received = peers.receive_all(sock)
                if not sender.finish():
                    return "reset"
        except LOST:
            return "reset"
        if received != self.data:
            raise AssertionError(
                f"connection {self.number} from {own}: FIN after {len(received)} of {len(self.data)} bytes")
        return "complete"

    def send(self, sock):
        """False after a reset, which the kernel reports only once: to this thread or to the reader."""
        try:
            sock.sendall(self.data)
            sock.shutdown(socket.SHUT_WR)
            return True
        except OSError:
            return False


class Echo:
    """Answers, and knows the expected data of each connection."""

    def __init__(self):
        self.talks = {}
        self.server = peers.Server(self.handle)
        self.address = self.server.address

    def handle(self, sock):
        data = b""
        try:
            while part := sock.recv(65536):
                data += part
                sock.sendall(part)
        except LOST:
            return "reset"
        # A connection that ended before its first data ends as the kernel ends it.
        if data:
            whole = self.talks[HEADER.unpack(data[:HEADER.size])[0]].data if len(data) >= HEADER.size else None
            if data != whole:
                raise AssertionError(f"the server: FIN after {len(data)} bytes of {len(whole or b'')}")
        return "complete"

    def finish(self):
        """Results of the connections since the last call."""
        tasks, self.server.tasks = self.server.tasks, []
        return [task.finish() for task in tasks]


class FailingCalls(ProxyTest):
    def start_faulty(self, name, listeners, table):
        return self.start(name, listeners, {"smc": {"group_idle_timeout": "0s"}},
                          environment=table.environment(LIBRARY, programs() / "fairlead-proxy"))

    def setUp(self):
        super().setUp()
        self.echo = Echo()
        self.addCleanup(self.echo.server.close)
        self.tables = {name: Table(self.folder / f"{name}.faults") for name in ("in", "out")}
        self.count = 0

    def start_faulty_pair(self):
        self.inbound = self.start_faulty("in", [listener("in", "inbound", self.echo.address)], self.tables["in"])
        self.outbound = self.start_faulty(
            "out", [listener("out", "outbound", self.inbound.address("in"))], self.tables["out"])
        self.entry = self.outbound.address("out")

    def talk(self, count, generator):
        """Results of this many concurrent connections."""
        talks = []
        for _ in range(count):
            self.count += 1
            talks.append(Talk(self.count, generator.random()))
            self.echo.talks[self.count] = talks[-1]
        tasks = [peers.Task(talk.run, self.entry) for talk in talks]
        fates = [task.finish() for task in tasks]
        self.echo.finish()
        for talk in talks:
            del self.echo.talks[talk.number]
        return fates

    def plan(self, generator):
        """(proxy, failure) of each round."""
        failures = [failure for failure in all_failures() if ONLY in ("", failure.call) and
                    (failure.call, failure.target) not in NOT_MADE]
        if ROUNDS != "all":
            for _ in range(int(ROUNDS)):
                failure = generator.choice(failures)
                failure.turn = 1 + int(generator.paretovariate(1)) % TURNS_MAX
                yield generator.choice(("in", "out")), failure
            return
        for failure in failures:
            for failure.turn in range(1, TURNS_MAX + 1):
                for proxy in ("in", "out"):
                    yield proxy, failure

    def test_calls_that_fail_under_load(self):
        generator = random.Random(SEED)
        self.start_faulty_pair()
        self.assertEqual(self.talk(3, generator), ["complete"] * 3)
        fired = resets = rounds = 0
        for name, failure in self.plan(generator):
            rounds += 1
            with self.subTest(f"{failure} at {name}"):
                self.tables[name].arm([failure])
                fates = self.talk(CONNECTIONS, generator)
                fired += self.tables[name].disarm()
                resets += fates.count("reset")
                for proxy in self.proxies:
                    self.assertIsNone(proxy.process.poll(), f"{proxy.name} has ended")
                self.assertEqual(self.talk(1, generator), ["complete"], "the next connection")
        print(f"{rounds} rounds, {fired} calls failed, {resets} connections were reset; "
              f"{[proxy.smcr_connections() for proxy in self.proxies]} over SMC-R")
        self.assertGreater(fired, rounds / 10, "too few of the calls that were to fail were made")
        self.assert_nothing_left()
        self.assert_kinds_occur()

    def assert_kinds_occur(self):
        """A failure of a call that the proxies never make would test nothing."""
        never = {kind for kind in ERRORS if not any(table.seen(*kind) for table in self.tables.values())}
        self.assertEqual(never - NOT_MADE, set(), "calls that neither proxy has made")

    def assert_nothing_left(self):
        self.wait_idle()
        self.assertEqual(self.talk(3, random.Random(0)), ["complete"] * 3)

    def test_calls_that_fail_at_the_start(self):
        """The proxy starts, or ends with a reason."""
        self.waits_for_broker = False
        generator = random.Random(SEED)
        failures = all_failures()
        count = len(failures) * 4 if ROUNDS == "all" else int(ROUNDS) // 5
        ends = {"ready": 0, "refused": 0}
        for number in range(count):
            failure = failures[number % len(failures)] if ROUNDS == "all" else generator.choice(failures)
            failure.turn = generator.randrange(1, TURNS_MAX)
            with self.subTest(str(failure)):
                ends[self.start_once(failure)] += 1
        print(f"{count} starts: {ends}")

    def start_once(self, failure):
        table = self.tables["in"]
        table.arm([failure])
        proxy = None
        try:
            proxy = self.start_faulty("once", [listener("in", "inbound", self.echo.address)], table)
        except AssertionError:
            proxy = self.proxies[-1]
            proxy.expected_exit = proxy.process.wait(seconds(10))
            self.assertIn(proxy.expected_exit, (1, 64), proxy.log())
            self.assertRegex(proxy.log(), " ERROR |^fairlead-proxy: ")
            return "refused"
        finally:
            table.disarm()
        self.assertIsNone(proxy.finish(), proxy.log())
        return "ready"


if __name__ == "__main__":
    main()
