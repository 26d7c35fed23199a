"""An application of a victim's pod that attackers may use: it answers on a port, and connects wherever it is asked to.

    lured.py PORT

On TCP port PORT it sends everything back. A datagram to UDP port PORT is JSON: {"port": N, "bytes": N, "end": bool}.
The application then connects to that port of the datagram's sender, sends so many bytes, after them FIN if `end` is
true, and reads whatever comes. It never waits for one connection, and ends each after LIFE_SECONDS.
"""
import json
import selectors
import socket
import sys
import time

CONNECTIONS_MAX = 64
LIFE_SECONDS = 3.0
UNSENT_BYTES_MAX = 256 * 1024
READ_BYTES = 65536
BYTES_MAX = 1 << 20


class Conversation:
    """One connection, which sends what it has, and reads as long as that is not too much."""

    def __init__(self, sock, echoes, unsent=b"", ends=False):
        self.sock, self.echoes, self.unsent, self.ends = sock, echoes, bytearray(unsent), ends
        self.until = time.monotonic() + LIFE_SECONDS

    def wanted(self):
        events = selectors.EVENT_READ if len(self.unsent) < UNSENT_BYTES_MAX else 0
        return events | (selectors.EVENT_WRITE if self.unsent or self.ends else 0) or selectors.EVENT_WRITE

    def handle(self, events):
        """False at its end."""
        try:
            if events & selectors.EVENT_READ:
                data = self.sock.recv(READ_BYTES)
                if not data:
                    return False
                if self.echoes:
                    self.unsent += data
            if events & selectors.EVENT_WRITE:
                if self.unsent:
                    del self.unsent[:self.sock.send(self.unsent)]
                if self.ends and not self.unsent:
                    self.ends = False
                    self.sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


class Application:
    def __init__(self, port):
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("0.0.0.0", port), backlog=1024)
        self.calls = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.calls.bind(("0.0.0.0", port))
        for sock in (self.listener, self.calls):
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_READ)
        self.conversations = []

    def begin(self, conversation):
        conversation.sock.setblocking(False)
        self.selector.register(conversation.sock, conversation.wanted(), conversation)
        self.conversations.append(conversation)
        if len(self.conversations) > CONNECTIONS_MAX:
            self.end(self.conversations[0])

    def end(self, conversation):
        self.conversations.remove(conversation)
        self.selector.unregister(conversation.sock)
        conversation.sock.close()

    def accept(self):
        try:
            self.begin(Conversation(self.listener.accept()[0], echoes=True))
        except OSError:  # the client has gone
            pass

    def follow(self):
        data, sender = self.calls.recvfrom(1024)
        call = json.loads(data)
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((sender[0], call["port"]))
        self.begin(Conversation(sock, False, b"l" * min(call["bytes"], BYTES_MAX), call["end"]))

    def run(self):
        print("ready", flush=True)
        while True:
            for key, events in self.selector.select(0.5):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj is self.calls:
                    self.follow()
                elif key.data in self.conversations:
                    if key.data.handle(events):
                        self.selector.modify(key.fileobj, key.data.wanted(), key.data)
                    else:
                        self.end(key.data)
            now = time.monotonic()
            while self.conversations and self.conversations[0].until < now:
                self.end(self.conversations[0])


if __name__ == "__main__":
    Application(int(sys.argv[1])).run()
