#!/usr/bin/env python3
"""Clients of a NATS server: streams, requests, or many short connections. Prints what they did as JSON.

    nats_client.py HOST PORT ping | stream MESSAGES | request ROUND_TRIPS | short CONNECTIONS
"""
import functools
import json
import socket
import sys
import threading
import time

PAIRS = 2             # of a publisher and a subscriber, or of one that asks and one that answers
STREAM_BYTES = 32 << 10
REQUEST_BYTES = 128
SHORT_MESSAGES = 5    # of a short connection
AT_ONCE = 4           # short connections
BATCH = 8             # messages of one send
SECONDS_MAX = 60


class Client:
    """One connection. The protocol is lines of text, and payloads of announced length."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = self.socket.makefile("rb", 256 << 10)
        self.info = json.loads(self.line("INFO"))
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n')

    def line(self, word):
        """The rest of the next line, which begins with this word. Answers the server's own PINGs."""
        while (line := self.reader.readline()) == b"PING\r\n":
            self.socket.sendall(b"PONG\r\n")
        found, _, rest = line.decode().rstrip().partition(" ")
        if found != word:
            raise SystemExit(f"{word} expected from the server, got: {line!r}")
        return rest

    def settle(self):
        """Returns once the server has handled all that was sent."""
        self.socket.sendall(b"PING\r\n")
        self.line("PONG")

    def subscribe(self, subject):
        self.socket.sendall(b"SUB %s 1\r\n" % subject)
        self.settle()

    def message(self):
        """(subject for the answer, payload)"""
        _, *reply, size = self.line("MSG").split()[1:]
        payload = self.reader.read(int(size))
        self.reader.read(2)  # the end of the line
        return (reply or [""])[0].encode(), payload

    def close(self):
        self.reader.close()
        self.socket.close()


def published(subject, payload, reply=b""):
    return b"PUB %s %s%d\r\n%s\r\n" % (subject, reply and reply + b" ", len(payload), payload)


@functools.lru_cache(maxsize=None)
def body(value, size):
    return bytes([value]) * (size - 8)


def numbered(number, size):
    """A payload whose content depends on its number."""
    return number.to_bytes(8, "big") + body(number % 251, size)


def is_numbered(payload, number, size):
    return len(payload) == size and payload.endswith(body(number % 251, size))


class Tasks:
    """Threads whose errors end the program."""

    def __init__(self):
        self.threads, self.errors = [], []

    def add(self, function, *arguments):
        self.threads.append(threading.Thread(target=self._run, args=(function, *arguments), daemon=True))

    def _run(self, function, *arguments):
        try:
            function(*arguments)
        except (OSError, ValueError, SystemExit) as error:
            self.errors.append(str(error) or type(error).__name__)

    def finish(self):
        """Runs all to their ends; returns the seconds."""
        begin = time.monotonic()
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(SECONDS_MAX)
            if thread.is_alive():
                raise SystemExit(f"a client took longer than {SECONDS_MAX} s")
        if self.errors:
            raise SystemExit(self.errors[0])
        return time.monotonic() - begin


class Counter:
    """What subscribers have got, counted by their own threads."""

    def __init__(self, size):
        self.size, self.lock = size, threading.Lock()
        self.messages, self.wrong, self.sum = 0, 0, 0

    def receive(self, client, count):
        """Checks `count` messages: each payload must be the one that belongs to its number."""
        total, wrong = 0, 0
        for _ in range(count):
            _, payload = client.message()
            number = int.from_bytes(payload[:8], "big")
            total += number
            wrong += not is_numbered(payload, number, self.size)
        with self.lock:
            self.messages += count
            self.wrong += wrong
            self.sum += total

    def result(self, seconds, expected_sum, **more):
        return {"seconds": seconds, "messages": self.messages, "wrong": self.wrong + (self.sum != expected_sum), **more}


def stream(connect, messages):
    """Each of PAIRS publishers sends `messages` to one subscriber."""
    counter, tasks, clients = Counter(STREAM_BYTES), Tasks(), []

    def publish(client, subject):
        for first in range(0, messages, BATCH):
            client.socket.sendall(b"".join(published(subject, numbered(number, STREAM_BYTES))
                                           for number in range(first, min(first + BATCH, messages))))

    for pair in range(PAIRS):
        subject = b"stream.%d" % pair
        clients += [connect(), connect()]
        clients[-1].subscribe(subject)
        tasks.add(counter.receive, clients[-1], messages)
        tasks.add(publish, clients[-2], subject)
    seconds = tasks.finish()
    for client in clients:
        client.close()
    return counter.result(seconds, PAIRS * sum(range(messages)), connections=len(clients), bytes=counter.messages * STREAM_BYTES)


def request(connect, round_trips):
    """PAIRS clients ask, one request after another, and as many answer with the same bytes."""
    counter, tasks, clients = Counter(REQUEST_BYTES), Tasks(), []

    def answer(client):
        for _ in range(round_trips):
            reply, payload = client.message()
            client.socket.sendall(published(reply, payload))

    def ask(client, subject, inbox):
        for number in range(round_trips):
            client.socket.sendall(published(subject, numbered(number, REQUEST_BYTES), inbox))
            counter.receive(client, 1)

    for pair in range(PAIRS):
        subject, inbox = b"ask.%d" % pair, b"inbox.%d" % pair
        clients += [connect(), connect()]
        clients[-2].subscribe(inbox)
        clients[-1].subscribe(subject)
        tasks.add(answer, clients[-1])
        tasks.add(ask, clients[-2], subject, inbox)
    seconds = tasks.finish()
    for client in clients:
        client.close()
    return counter.result(seconds, PAIRS * sum(range(round_trips)), connections=len(clients))


def short(connect, connections):
    """Short connections publish a few messages each, while a long one counts them."""
    counter, tasks = Counter(REQUEST_BYTES), Tasks()
    subscriber = connect()
    subscriber.subscribe(b"short")
    each = connections // AT_ONCE

    def publish(first):
        for index in range(first, first + each):
            client = connect()
            client.socket.sendall(b"".join(published(b"short", numbered(index * SHORT_MESSAGES + number, REQUEST_BYTES))
                                           for number in range(SHORT_MESSAGES)))
            client.settle()
            client.close()

    for worker in range(AT_ONCE):
        tasks.add(publish, worker * each)
    total = AT_ONCE * each * SHORT_MESSAGES
    tasks.add(counter.receive, subscriber, total)
    seconds = tasks.finish()
    subscriber.close()
    return counter.result(seconds, sum(range(total)), connections=AT_ONCE * each)


def ping(connect, _):
    """What the server says of itself, and of the address that it sees."""
    client = connect()
    client.settle()
    return client.info


def main():
    host, port, what, *count = sys.argv[1:]
    work = {"stream": stream, "request": request, "short": short, "ping": ping}[what]
    print(json.dumps(work(lambda: Client(host, int(port)), int((count or [0])[0]))), flush=True)


if __name__ == "__main__":
    main()
