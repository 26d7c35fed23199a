"""The processes of one hostile pod of agent_test.py. This one listens wherever the node agent looks for a sidecar, and
keeps what its sessions give it. Each session is a process of its own, so that nothing of it stays when it ends:

    agent_pod.py

Commands on standard input, one line of JSON each, with an answer of one line on standard output:

    {"seed": S, "seconds": T}  a session of at most this time; the answer counts steps drawn and reached
    {"ended": T}               the pod has ended: the sockets whose connections the agent has not closed after this time
"""
import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
import time

import agent_steps
import strange_files

LISTENERS = {"keeper": ("fairlead-keeper", socket.SOCK_SEQPACKET),
             "broker0": ("fairlead-proxy-0", socket.SOCK_SEQPACKET),
             "broker1": ("fairlead-proxy-1", socket.SOCK_SEQPACKET),
             "address": ("fairlead-client-address", socket.SOCK_SEQPACKET),
             "admin": ("fairlead-admin", socket.SOCK_STREAM)}
STEPS_MAX = 30
LINKS_MAX, PEERS_MAX = 16, 32
LATE_SECONDS = 3
PAUSE_SECONDS = 0.001
INTERRUPT_SECONDS = 0.01
TABLES = (0, 1, 3, 4, 100, 5000)
DROPPED_SHARE = 0.25  # of the seeds before which kept connections are closed


class Stock:
    """Descriptors whose numbers a session may tell the agent: this process listens, and has them."""

    def __init__(self):
        made = strange_files.Made(random.Random(0))
        self.made = made
        some = [made.one(kind) for kind in strange_files.PLAIN]
        self.description = strange_files.memory(b"junk")
        self.tables = [(count, strange_files.numbers_file([some[index % len(some)] for index in range(count)]))
                       for count in TABLES]
        self.all = [*some, self.description, *[table for _, table in self.tables]]


class Pod:
    def __init__(self):
        self.listeners = {}
        self.links, self.peers = [], []  # that sessions have given to this process
        self.stock = Stock()
        self.listen()

    def listen(self):
        """Where nobody listens any more."""
        for name, (path, kind) in LISTENERS.items():
            if name in self.listeners:
                continue
            made = socket.socket(socket.AF_UNIX, kind)
            try:
                made.bind("\0" + path)
                made.listen(4)
                self.listeners[name] = made
            except OSError:  # the session's own is closed in a moment
                made.close()

    def run(self, seed, seconds):
        rng = random.Random(seed)
        if rng.random() < DROPPED_SHARE:
            self.drop(self.links, 0)
            self.drop(self.peers, 0)
        self.listen()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = os.fork()
        if child == 0:
            ours.close()
            with contextlib.suppress(BrokenPipeError), interrupted_closes():
                _kept = session(rng, dict(self.listeners), self.stock, theirs, time.monotonic() + seconds)
                theirs.send(b"over")
            os._exit(0)
        theirs.close()
        counts = {}
        deadline = time.monotonic() + seconds + LATE_SECONDS
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not self.take(ours, counts):
                break
        else:
            counts["late"] = 1
        # Its own close of a socket may linger, until a signal.
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            os.kill(child, signal.SIGKILL)
            time.sleep(PAUSE_SECONDS)
        ours.close()
        self.listen()
        return counts

    def take(self, ours, counts):
        """A message of the session; False at its end."""
        data, descriptors, _, _ = socket.recv_fds(ours, 4096, 16)
        words = data.decode().split()
        if words[:1] == ["links"]:
            self.links += [(descriptor, words[1]) for descriptor in descriptors]
        else:
            self.peers += [(descriptor, "peer") for descriptor in descriptors]
        self.drop(self.links, LINKS_MAX)
        self.drop(self.peers, PEERS_MAX)
        if words[:1] == ["drop"]:
            if (dropped := self.listeners.pop(words[1], None)) is not None:
                dropped.close()
        elif words[:1] == ["dies"]:
            counts["process/die/reached"] = 1
            return False
        elif words[:1] == ["count"]:
            counts[words[1]] = counts.get(words[1], 0) + int(words[2])
        elif words[:1] == [] and not descriptors:
            counts["crashed"] = 1
        return data not in (b"", b"over")

    @staticmethod
    def drop(kept, count):
        """All but the last ones."""
        if len(kept) > count:
            with interrupted_closes():
                while len(kept) > count:
                    os.close(kept.pop(0)[0])

    def connected(self, seconds):
        """Which sockets have connections that the agent has not closed after this time."""
        deadline = time.monotonic() + seconds
        poller = select.poll()
        for link, _ in self.links:
            poller.register(link, 0)
        while True:
            gone = {link for link, events in poller.poll(0) if events & (select.POLLHUP | select.POLLERR)}
            left = sorted(name for link, name in self.links if link not in gone)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.02)


@contextlib.contextmanager
def interrupted_closes():
    """A close that lingers, also of a socket that nobody has read from another one, goes on at the next signal."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, INTERRUPT_SECONDS, INTERRUPT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def session(rng, listeners, stock, hand_over, deadline):
    """Everything is drawn before the first step, so that the time that one takes changes none of the others."""
    plan = rng.choices(agent_steps.NAMES, agent_steps.WEIGHTS, k=rng.randint(3, STEPS_MAX))
    seeds = [rng.getrandbits(64) for _ in plan]
    own = agent_steps.Session(rng, listeners, stock, hand_over, deadline)

    def tell(name, count=1):
        hand_over.send(f"count {name} {count}".encode())
    for name, seed in zip(plan, seeds):
        if own.left() <= 0:
            tell("cut")
            break
        own.begin(random.Random(seed))
        tell(name)
        try:
            reached = agent_steps.STEPS[name][0](own)
        except (OSError, ValueError):  # the connection or the user's share of descriptors is gone
            reached = False
            tell("failed")
        if reached:
            tell(f"{name}/reached")
    for kind, count in own.made.kinds.items():
        tell(f"file/{kind}", count)
    return own


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    pod = Pod()
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "ended" in command:
            answer = {"connected": pod.connected(command["ended"])}
        else:
            answer = pod.run(command["seed"], command["seconds"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
