#!/usr/bin/env python3
"""NATS with some long connections and many short ones: examples/nats.py [--short] [--build DIR]"""
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from example import MIB, Example, main  # noqa: E402 pylint: disable=wrong-import-position
from demo_scene import Failure, expect, wait_for  # noqa: E402 pylint: disable=wrong-import-position

PORT = 4222
MONITOR = 8222
# A subscriber that is slower than its publisher must not be disconnected.
CONFIG = """listen: "{0}:{1}"
http: "127.0.0.1:{2}"
max_pending: 512MB
write_deadline: "60s"
"""
STREAM = "stream, 32 KiB messages"
REQUEST = "request and reply, 128 B"
SHORT = "short connections, 5 messages"


class Nats(Example):
    name = "nats"
    title = "A NATS server and its clients"
    programs = ("nats-server",)
    ports = {"server": (PORT,)}
    work = {STREAM: "large messages", REQUEST: "small requests one after another", SHORT: "new connections for a few messages"}
    shown = "The address of a client that the server sees"

    def start(self):
        self.delivered = 0
        host = self.stage.addresses["server"]
        config = self.scene.write("nats.conf", CONFIG.format(host, PORT, MONITOR))
        self.scene.start("nats-server", self.stage.inside("server", ["nats-server", "-c", config]))
        wait_for("NATS to start", self.answers)

    def client(self, *words):
        return self.stage.inside("client", [sys.executable, "-B", Path(__file__).with_name("nats_client.py"),
                                            self.stage.addresses["server"], str(PORT), *words])

    def ask(self, *words):
        return json.loads(self.scene.run(self.client(*words), seconds=120))

    def answers(self):
        try:
            return self.ask("ping")
        except Failure:
            return False

    def show(self):
        self.show_addresses(lambda: self.ask("ping")["client_ip"])

    def measure(self, way):
        streams = self.ask("stream", str(self.amount(4000)))
        requests = self.ask("request", str(self.amount(6000)))
        shorts = self.ask("short", str(self.amount(1200)))
        for done in (streams, requests, shorts):
            expect(done["wrong"] == 0, f"{way}: {done['wrong']} of {done['messages']} messages are wrong")
        # A request is answered by another message.
        self.delivered += streams["messages"] + 2 * requests["messages"] + shorts["messages"]
        self.stage.expect_used()
        return [(STREAM, "MiB/s", streams["bytes"] / MIB / streams["seconds"]),
                (REQUEST, "requests/s", requests["messages"] / requests["seconds"]),
                (SHORT, "connections/s", shorts["connections"] / shorts["seconds"])]

    def check(self):
        """The server delivered as many messages as the subscribers counted."""
        server = json.loads(self.scene.run(self.stage.inside("server", ["curl", "-sSf", f"http://127.0.0.1:{MONITOR}/varz"])))
        for counter in ("in_msgs", "out_msgs"):
            expect(server[counter] == self.delivered, f"{counter} of the server is {server[counter]}, not {self.delivered}")
        return f"{self.delivered:,} messages arrived once each and unchanged; the server counts as many."


if __name__ == "__main__":
    sys.exit(main(Nats))
