"""The innocent pair of the hostile-neighbour test: an echo server and a client that notices everything.

    innocent.py serve PORT
    innocent.py talk HOST PORT CONNECTIONS

The client keeps CONNECTIONS connections busy with verified round trips and opens a short one now and then. Commands
on standard input: "begin" forgets what was measured, "end" prints it as one line of JSON:

    longest_gap_ms  longest time that a connection went without completing a round trip
    round_trips     completed on the lasting connections
    short           short connections that were served completely
    errors          what no client of a healthy server ever sees: resets, refusals, wrong bytes
"""
import json
import random
import selectors
import socket
import sys
import time

MESSAGE_BYTES_MAX = 4096
SHORT_CONNECTION_INTERVAL_SECONDS = 0.05
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
    """One connection and the round trip that it is in."""

    def __init__(self, address, messages):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.messages = messages
        self.completed_at = time.monotonic()
        self.send()

    def send(self):
        self.expected = self.messages.randbytes(self.messages.randint(1, MESSAGE_BYTES_MAX))
        self.received = b""
        self.socket.sendall(self.expected)

    def receive(self):
        """True when the round trip is complete. Raises what is wrong with the connection."""
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
        for connection in getattr(self, "lasting", ()):
            connection.completed_at = now

    def report(self):
        now = time.monotonic()
        for connection in self.lasting:
            self.longest_gap = max(self.longest_gap, now - connection.completed_at)
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

    def handle(self, connection):
        lasting = connection in self.lasting
        try:
            if not connection.receive():
                return
            now = time.monotonic()
            if lasting:
                self.longest_gap = max(self.longest_gap, now - connection.completed_at)
                connection.completed_at = now
                self.round_trips += 1
                connection.send()
                return
            self.short += 1
        except OSError as error:
            self.note_error(f"{'lasting' if lasting else 'short'} connection: {error}")
        self.selector.unregister(connection.socket)
        connection.socket.close()
        if lasting:
            self.lasting.remove(connection)
            self.open_lasting()

    def run(self):
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        print("ready", flush=True)
        while True:
            for key, _ in self.selector.select(SHORT_CONNECTION_INTERVAL_SECONDS):
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
            self.open_short(time.monotonic())


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        Client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])).run()
