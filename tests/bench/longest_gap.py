#!/usr/bin/env python3
"""Ping-pong on many connections, with the longest wait for an answer.

    longest_gap.py HOST PORT CONNECTIONS BYTES

Connects to the server of loadgen. For each SIGUSR1 it prints one line of JSON about the time since the previous one:
the number of answers, the longest wait of a connection (including pending waits), and the number of connections
without an answer. Every answer is compared with its request. The first line follows when all connections have
had an answer. Ends by SIGTERM.
"""

import json
import os
import selectors
import signal
import socket
import struct
import sys
import time

HELLO = struct.Struct("=IIQ")
MAGIC, MODE_ECHO = 0x4c474e31, 2
LOOK_SECONDS = 0.05  # interval of the check for a signal while no answer arrives


class Connection:
    def __init__(self, address, message_bytes):
        self.sock = socket.create_connection(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(HELLO.pack(MAGIC, MODE_ECHO, message_bytes))
        self.message_bytes = message_bytes
        self.answers, self.longest = 0, 0.0
        self.last = time.monotonic()
        self.ask()

    def ask(self):
        self.question = os.urandom(16) * (self.message_bytes // 16)
        self.answer = bytearray()
        self.sock.sendall(self.question)

    def read(self):
        part = self.sock.recv(self.message_bytes)
        if not part:
            raise ConnectionError("a connection ended")
        self.answer += part
        if len(self.answer) < len(self.question):
            return
        if self.answer != self.question:
            raise ConnectionError("another answer than was sent")
        self.answers += 1
        self.waited(time.monotonic())
        self.ask()

    def waited(self, until):
        self.longest = max(self.longest, until - self.last)
        self.last = until

    def report(self, now):
        found = self.answers, max(self.longest, now - self.last)
        self.answers, self.longest = 0, 0.0
        return found


def show(connections):
    now = time.monotonic()
    reports = [connection.report(now) for connection in connections]
    print(json.dumps({"answers": sum(answers for answers, _ in reports),
                      "longest_ms": max(longest for _, longest in reports) * 1e3,
                      "silent": sum(answers == 0 for answers, _ in reports)}), flush=True)


def main():
    host, port, count, message_bytes = sys.argv[1], *map(int, sys.argv[2:5])
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
    connections = [Connection((host, port), message_bytes) for _ in range(count)]
    selector = selectors.DefaultSelector()
    for connection in connections:
        selector.register(connection.sock, selectors.EVENT_READ, connection)
    started = False
    while True:
        for key, _ in selector.select(LOOK_SECONDS):
            key.data.read()
        if not started and all(connection.answers for connection in connections):
            started = True
            show(connections)
        if asked:
            asked.clear()
            show(connections)


if __name__ == "__main__":
    main()
