"""A crowd of connections between two pods, in a process of its own: most of the time at rest, each asks for an echo at
an interval. Beside them, new connections come all the time. The process says how long each had to wait, and what failed.

A program of its own because the tests' process has other things to do. It is told one word a line, and answers with
JSON."""
import collections
import json
import math
import os
import resource
import select
import selectors
import socket
import subprocess
import sys
import time

import plugin

PORT = 7777  # the first one
# After a loss the next port is used: what a kernel still knows of connections that were reset is not asked here.
PORTS = 8
MESSAGE_BYTES = 16
TELL_SECONDS = 60  # for an answer of this process, which waits for nothing


class Load:
    """The tests' end. Times are those of time.monotonic(), which processes share."""

    def __init__(self, server, client, count, interval):
        self.process = subprocess.Popen(
            ["sh", "-c", f'echo $$ > {client.cgroup}/cgroup.procs && exec "$@"', "sh", sys.executable, "-B", __file__, server.path, client.path, server.address(), str(count), str(interval)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, word):
        """Ask for `report`; `begin` forgets what was seen before, and connects again who has lost its connection;
        `quiet` makes no new connections any more."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], TELL_SECONDS)[0]:
            raise AssertionError("the load says nothing")
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Talk:
    """One connection."""

    def __init__(self, number, fresh=False):
        self.number, self.fresh = number, fresh
        self.sock, self.sent_at, self.heard, self.message = None, None, b"", b""
        self.rounds = 0
        self.answered_at = 0.0
        self.failed = None


class Crowd:
    """What runs in the process."""

    def __init__(self, server, client, host, count, interval):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.interval = interval
        self.selector = selectors.DefaultSelector()
        self.host, self.losses = host, 0
        with open(server, encoding="ascii") as file:
            plugin.enter(file)
        for port in range(PORT, PORT + PORTS):
            listener = socket.socket()
            listener.bind(("0.0.0.0", port))
            listener.listen(4096)
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ, self.accept)
        with open(client, encoding="ascii") as file:
            plugin.enter(file)
        os.set_blocking(0, False)
        self.selector.register(0, selectors.EVENT_READ, self.obey)
        self.words = b""
        self.talks = [Talk(number) for number in range(count)]
        self.fresh = set()
        self.fresh_made = 0
        self.next_fresh = time.monotonic()
        self.forget()
        self.due = collections.deque()  # by time, because all wait for the same interval
        now = time.monotonic()
        for talk in self.talks:
            self.due.append((now + interval * talk.number / count, talk))

    def forget(self):
        self.longest = 0.0
        self.fresh_longest, self.fresh_done, self.fresh_failed = 0.0, 0, []
        self.fresh_started = 0.0  # when the latest of those began that have ended well

    def accept(self, key):
        while True:
            try:
                sock = key.fileobj.accept()[0]
            except OSError:
                return
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ, lambda key: self.echo(key.fileobj))

    def echo(self, sock):
        try:
            data = sock.recv(4096)
            if data:
                sock.send(data)
                return
        except OSError:
            pass
        self.selector.unregister(sock)
        sock.close()

    def ask(self, talk):
        talk.sent_at, talk.heard = time.monotonic(), b""
        talk.message = b"%7d %8d" % (talk.number, talk.rounds)
        try:
            if talk.sock is None:
                talk.sock = socket.socket()
                talk.sock.setblocking(False)
                talk.sock.connect_ex((self.host, PORT + self.losses % PORTS))
                self.selector.register(talk.sock, selectors.EVENT_WRITE, lambda key, talk=talk: self.begin(talk))
            else:
                talk.sock.send(talk.message)
        except OSError as error:
            self.fail(talk, error)

    def begin(self, talk):
        """Connected, or not."""
        try:
            error = talk.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            talk.sock.send(talk.message)
            self.selector.modify(talk.sock, selectors.EVENT_READ, lambda key: self.hear(talk))
        except OSError as error:
            self.fail(talk, error)

    def hear(self, talk):
        try:
            data = talk.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(talk, error)
            return
        talk.heard += data
        if not data or talk.sent_at is None or not talk.message.startswith(talk.heard):
            self.fail(talk, f"heard {talk.heard!r}, asked {talk.message!r}" if data else "an end")
        elif talk.heard == talk.message:
            self.answered(talk)

    def answered(self, talk):
        now = time.monotonic()
        took = now - talk.sent_at
        if talk.fresh:
            self.fresh_longest = max(self.fresh_longest, took)
            self.fresh_done += 1
            self.fresh_started = max(self.fresh_started, talk.sent_at)
            self.end(talk)
            return
        self.longest = max(self.longest, took)
        talk.sent_at, talk.answered_at = None, now
        talk.rounds += 1
        self.due.append((now + self.interval, talk))

    def end(self, talk):
        if talk.sock is not None:
            try:
                self.selector.unregister(talk.sock)
            except KeyError:
                pass
            talk.sock.close()
            talk.sock = None
        self.fresh.discard(talk)

    def fail(self, talk, what):
        failure = {"number": talk.number, "began": talk.sent_at or 0, "at": time.monotonic(), "what": str(what)}
        if talk.fresh:
            self.fresh_failed.append(failure)
        else:
            talk.failed, talk.sent_at = failure, None
        self.end(talk)

    def obey(self, _):
        data = os.read(0, 4096)
        if not data:
            sys.exit(0)
        self.words += data
        while b"\n" in self.words:
            word, self.words = self.words.split(b"\n", 1)
            if word == b"quiet":
                self.next_fresh = math.inf
            if word == b"begin":
                if self.fresh_failed or any(talk.failed for talk in self.talks):
                    self.losses += 1
                self.forget()
                # A connection that failed while it was in the list would be in it twice, and ask twice.
                self.due = collections.deque(one for one in self.due if not one[1].failed)
                for talk in self.talks:
                    if talk.failed:
                        talk.failed, talk.rounds = None, 0
                        self.due.appendleft((0, talk))
            print(json.dumps(self.report()), flush=True)

    def report(self):
        now = time.monotonic()
        failed = [talk.failed for talk in self.talks if talk.failed]
        return {"failed": len(failed), "first_failures": sorted(failed, key=lambda one: one["at"])[:3],
                "waits": max([now - talk.sent_at for talk in self.talks if talk.sent_at], default=0),
                "longest": self.longest,
                "answered_since": min([talk.answered_at for talk in self.talks if not talk.failed], default=now),
                "fresh_done": self.fresh_done, "fresh_longest": self.fresh_longest, "fresh_failed": self.fresh_failed,
                "fresh_started": self.fresh_started,
                "fresh_waits": max([now - talk.sent_at for talk in self.fresh], default=0)}

    def run(self):
        while True:
            now = time.monotonic()
            while self.due and self.due[0][0] <= now:
                talk = self.due.popleft()[1]
                if not talk.failed:
                    self.ask(talk)
            if self.next_fresh <= now:
                self.next_fresh = now + self.interval / 4
                self.fresh_made += 1
                talk = Talk(self.fresh_made, fresh=True)
                self.fresh.add(talk)
                self.ask(talk)
            wake = min(self.next_fresh, self.due[0][0] if self.due else now + 1)
            for key, _ in self.selector.select(max(0, wake - time.monotonic())):
                if key.fileobj == 0 or key.fileobj in self.selector.get_map():
                    key.data(key)


if __name__ == "__main__":
    Crowd(*sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])).run()
