"""The innocent pair of the hostile-neighbour test: an echo server and a client that detects every error.

    innocent.py serve PORT
    innocent.py talk HOST PORT CONNECTIONS

The client makes verified round trips on CONNECTIONS connections and opens short ones at intervals. Between two round
trips a connection rests for a random time of up to PAUSE_SECONDS_MAX. Otherwise the pair's sidecars would never
sleep, and would leave the attackers no processor. Commands on standard input: "begin" resets the measurements, "end"
prints them as one line of JSON:

    longest_gap_ms  longest time that a round trip took on a lasting connection
    round_trips     completed on the lasting connections
    short           short connections that were served completely
    errors          errors that no client of a working server sees: resets, refusals, wrong bytes
"""
import heapq
import json
import random
import selectors
import socket
import sys
import time

MESSAGE_BYTES_MAX = 4096
SHORT_CONNECTION_INTERVAL_SECONDS = 0.05
PAUSE_SECONDS_MAX = 0.02
ERRORS_MAX = 20
READ_BYTES = 65536


def serve(port):
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    selector.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                accepted, _ = listener.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(accepted, selectors.EVENT_READ)
                continue
            connection = key.fileobj
            try:
                data = connection.recv(READ_BYTES)
                if data:
                    connection.sendall(data)
            except OSError:
                data = b""
            if not data:
                selector.unregister(connection)
                connection.close()


class Connection:
    """One connection and its current round trip. It rests if `expected` is empty."""

    def __init__(self, address, messages):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.messages = messages
        self.send()

    def send(self):
        self.sent_at = time.monotonic()
        self.expected = self.messages.randbytes(self.messages.randint(1, MESSAGE_BYTES_MAX))
        self.received = b""
        self.socket.sendall(self.expected)

    def receive(self):
        """True when the round trip is complete. Raises errors of the connection."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("closed by the server")
        self.received += data
        if not self.expected.startswith(self.received):
            raise ConnectionError("wrong bytes")
        return len(self.received) == len(self.expected)


class Client:
    def __init__(self, host, port, connections):
        self.address = (host, port)
        self.messages = random.Random(1)
        self.pauses = random.Random(2)
        self.resting = []  # (when the pause ends, number, connection), a heap
        self.round_trips_ever = 0
        self.selector = selectors.DefaultSelector()
        self.lasting = set()
        self.short_at = 0.0
        self.begin()
        for _ in range(connections):
            self.open_lasting()

    def begin(self):
        now = time.monotonic()
        self.longest_gap = 0.0
        self.round_trips = self.short = 0
        self.errors = []
        for connection in self.lasting:
            connection.sent_at = now

    def report(self):
        now = time.monotonic()
        for connection in self.lasting:
            if connection.expected:
                self.longest_gap = max(self.longest_gap, now - connection.sent_at)
        return {"longest_gap_ms": round(self.longest_gap * 1000, 1), "round_trips": self.round_trips,
                "short": self.short, "errors": self.errors}

    def note_error(self, what):
        if len(self.errors) < ERRORS_MAX:
            self.errors.append(what)

    def open_lasting(self):
        connection = Connection(self.address, self.messages)
        self.lasting.add(connection)
        self.selector.register(connection.socket, selectors.EVENT_READ, connection)

    def open_short(self, now):
        if now < self.short_at:
            return
        self.short_at = now + SHORT_CONNECTION_INTERVAL_SECONDS
        try:
            connection = Connection(self.address, self.messages)
            self.selector.register(connection.socket, selectors.EVENT_READ, connection)
        except OSError as error:
            self.note_error(f"short connection: {error}")

    def complete(self, connection, now):
        self.longest_gap = max(self.longest_gap, now - connection.sent_at)
        self.round_trips += 1
        self.round_trips_ever += 1
        connection.expected = b""
        pause = self.pauses.uniform(0, PAUSE_SECONDS_MAX)
        heapq.heappush(self.resting, (now + pause, self.round_trips_ever, connection))

    def send_due(self):
        while self.resting and self.resting[0][0] <= time.monotonic():
            connection = heapq.heappop(self.resting)[2]
            if connection not in self.lasting:
                continue
            try:
                connection.send()
            except OSError as error:
                self.give_up(connection, error)

    def wait_seconds(self):
        now = time.monotonic()
        due = min([self.short_at, *[at for at, _, _ in self.resting[:1]]])
        return max(0.0, due - now)

    def give_up(self, connection, error):
        self.note_error(f"{'lasting' if connection in self.lasting else 'short'} connection: {error}")
        self.replace(connection)

    def replace(self, connection):
        self.selector.unregister(connection.socket)
        connection.socket.close()
        if connection in self.lasting:
            self.lasting.remove(connection)
            self.open_lasting()

    def handle(self, connection):
        try:
            if not connection.receive():
                return
        except OSError as error:
            self.give_up(connection, error)
            return
        if connection in self.lasting:
            self.complete(connection, time.monotonic())
            return
        self.short += 1
        self.replace(connection)

    def run(self):
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        print("ready", flush=True)
        while True:
            for key, _ in self.selector.select(self.wait_seconds()):
                if key.data is not None:
                    self.handle(key.data)
                    continue
                command = sys.stdin.readline().strip()
                if command == "begin":
                    self.begin()
                    print("begun", flush=True)
                elif command == "end":
                    print(json.dumps(self.report()), flush=True)
                else:
                    return
            self.send_due()
            self.open_short(time.monotonic())


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        Client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])).run()
