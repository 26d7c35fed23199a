"""The client of agent_test.py: that of innocent.py, which goes on when it finds nobody, and never forgets how long an
answer has taken. Its server is `innocent.py serve PORT`.

    lasting.py HOST PORT CONNECTIONS

The report has `hanging_ms`, too: the age of the oldest short connection without all of its answer. Each error ends in
the time at which it was seen, of time.monotonic().
"""
import sys
import time

import innocent

RETRY_SECONDS = 0.05
CONNECT_SECONDS = 60


class Connection(innocent.Connection):
    """One that tells what is wrong with an answer, also with one that comes between two questions."""

    def receive(self):
        if not self.expected:
            more = self.socket.recv(innocent.READ_BYTES)
            raise ConnectionError(f"{len(more)} bytes that nobody asked for" if more else "closed by the server")
        try:
            return super().receive()
        except ConnectionError as error:
            both = enumerate(zip(self.received, self.expected))
            same = next((at for at, (one, other) in both if one != other), "the end")
            raise ConnectionError(f"{error}; {len(self.received)} of {len(self.expected)} bytes are here, "
                                  f"right until {same}, port {self.socket.getsockname()[1]}") from error


class Client(innocent.Client):
    def __init__(self, host, port, connections):
        self.missing = 0
        self.retry_at = 0.0
        super().__init__(host, port, connections)

    def begin(self):
        """Round trips that have begun before go on."""
        self.longest_gap = 0.0
        self.round_trips = self.short = 0
        self.errors = []

    def report(self):
        now = time.monotonic()
        ages = [now - key.data.sent_at for key in self.selector.get_map().values()
                if key.data is not None and key.data not in self.lasting]
        return {**super().report(), "hanging_ms": round(1000 * max(ages, default=0), 1)}

    def note_error(self, what):
        super().note_error(f"{what} at {time.monotonic():.3f}")

    def open_lasting(self):
        try:
            connection = Connection(self.address, self.messages)
        except OSError as error:
            self.note_error(f"no lasting connection: {error}")
            self.missing += 1
            self.retry_at = time.monotonic() + RETRY_SECONDS
            return
        self.lasting.add(connection)
        self.selector.register(connection.socket, innocent.selectors.EVENT_READ, connection)

    def open_short(self, now):
        if self.missing and self.retry_at <= now:
            missing, self.missing = self.missing, 0
            for _ in range(missing):
                self.open_lasting()
        if now < self.short_at:
            return
        self.short_at = now + innocent.SHORT_CONNECTION_INTERVAL_SECONDS
        try:
            connection = Connection(self.address, self.messages)
            self.selector.register(connection.socket, innocent.selectors.EVENT_READ, connection)
        except OSError as error:
            self.note_error(f"short connection: {error}")


if __name__ == "__main__":
    innocent.socket.setdefaulttimeout(CONNECT_SECONDS)
    Client(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).run()
