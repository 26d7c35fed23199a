#!/usr/bin/env python3
"""Tail of the first answer of new connections, beside others that are held: p50, p99 and p99.9 of the time from connect(2)
to the last byte of an answer, and what the kernel dropped meanwhile. In a network namespace of its own; needs root.

    tests/bench/first_answers.py                              the cases of docs/benchmarks.md
    tests/bench/first_answers.py frames:64MiB:1000 tcp:64MiB:0
                                                              way, memory.limit, connections held
"""
import argparse
import os
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "tests/integration"), str(ROOT / "tests")]
os.environ.setdefault("FAIRLEAD_BIN", str(ROOT / "build/release/proxy"))

import own_network  # noqa: E402
import peers  # noqa: E402
from harness import ProxyTest  # noqa: E402
from kernel_counters import tcp_losses  # noqa: E402

WAYS = {"frames": {"defer_bytes": "16KiB", "defer_turns": 4}, "once": {"defer_bytes": 0}, "tcp": {"enabled": False}}
# 5,000 held connections need more than 64 MiB. Those without one say how much two runs of the same differ.
CASES = ("tcp:64MiB:0", *(f"frames:32MiB:{held}" for held in (0, 10, 100, 1000)), "tcp:32MiB:0",
         *(f"frames:64MiB:{held}" for held in (0, 10, 100, 1000)), "tcp:512MiB:0",
         *(f"frames:512MiB:{held}" for held in (0, 10, 100, 1000, 5000)), "tcp:64MiB:0")
DROPPED = ("TCPRcvQDrop", "RcvPruned", "TCPTimeouts")
SERVER = """
import selectors, socket
listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
print(listener.getsockname()[1], flush=True)
ready = selectors.DefaultSelector()
ready.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in ready.select():
        if key.fileobj is listener:
            ready.register(listener.accept()[0], selectors.EVENT_READ)
            continue
        try:
            asked = key.fileobj.recv(16)
            key.fileobj.sendall(bytes(int(asked or 0)))
        except OSError:
            asked = b""
        if not asked:
            ready.unregister(key.fileobj)
            key.fileobj.close()
"""


class FirstAnswers(ProxyTest):
    way, limit, held, count, answer_bytes = "frames", "64MiB", 0, 10000, 1000

    def ask(self, sock, count):
        sock.sendall(b"%16d" % count)
        peers.receive_exactly(sock, count)

    def first_answer(self):
        began = time.perf_counter()
        with peers.connect(self.entry) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.ask(sock, self.answer_bytes)
            return time.perf_counter() - began

    def runTest(self):  # pylint: disable=invalid-name
        with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as server:
            self.addCleanup(server.kill)
            options = {"memory": {"limit": self.limit}, "smc": WAYS[self.way]}
            self.start_pair(("127.0.0.1", int(server.stdout.readline())), client=options, server=options)
            crowd = [peers.connect(self.entry) for _ in range(self.held)]
            for sock in crowd:
                self.addCleanup(sock.close)
                self.ask(sock, 100)
            before = tcp_losses(DROPPED)
            seconds = sorted(self.first_answer() for _ in range(self.count))
            dropped = {name: count - before[name] for name, count in tcp_losses(DROPPED).items()}
            at = (seconds[int(self.count * share)] * 1e6 for share in (0.5, 0.99, 0.999))
            print(f"| {self.way} | {self.limit} | {self.held} | " + " | ".join(f"{value:.0f}" for value in at) +
                  f" | {sum(dropped.values())} |", flush=True)
            server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="WAY:LIMIT:HELD", help=f"ways: {', '.join(WAYS)}")
    parser.add_argument("--count", type=int, default=10000,
                        help="new connections of a case, 1000 or more (default 10000)")
    options = parser.parse_args()
    own_network.enter()
    print("| way | memory.limit | held | p50 µs | p99 µs | p99.9 µs | dropped |\n|---|---|---|---|---|---|---|", flush=True)
    failed = 0
    for case in options.cases:
        test = FirstAnswers()
        test.way, test.limit, test.held, test.count = (*case.split(":")[:2], int(case.split(":")[2]), options.count)
        result = unittest.TestResult()
        test.run(result)
        for _, trouble in result.errors + result.failures:
            print(f"{case}: {trouble.strip().splitlines()[-1]}", flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
