"""A client whose requests are each answered, without a pause, in a thread."""
import random
import socket
import threading
import time

import peers


class PingPong:
    """Checks each answer, and records the longest time between two."""

    def __init__(self, entry, seed=0, sizes=(64,)):
        self.random, self.sizes = random.Random(seed), sizes
        self.rounds, self.longest = 0, 0.0
        self.stopping = threading.Event()
        self.sock = peers.connect(entry)
        self.task = peers.Task(self._run)

    def _run(self):
        last = time.monotonic()
        with self.sock:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self.stopping.is_set():
                peers.assert_echo(self.sock, self.random.randbytes(self.random.choice(self.sizes)))
                now = time.monotonic()
                self.longest, last = max(self.longest, now - last), now
                self.rounds += 1

    def finish(self):
        self.stopping.set()
        self.task.finish()
        return self.longest
