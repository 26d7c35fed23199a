"""Streams of verifiable bytes, over TCP or the kernel's SMC.

The client's first line contains the server's steps. So a scenario is two lists of steps, one for each end, and one
call. A step is [name, argument, …]; its result is sent to the host. See Talk for the names. The file is long because
it names every step.
"""
import ctypes
import fcntl
import hashlib
import json
import os
import random
import select
import socket
import struct
import threading
import time

AF_SMC = 43
BLOCK_BYTES = 64 * 1024
GREETING = b"!"
CONNECTION_SECONDS = 120  # for any single call on a socket
PROGRESS_ROUNDS = 5
REST = ".rest"
SIOCATMARK = 0x8905
libc = ctypes.CDLL(None, use_errno=True)


def open_socket(family):
    """A stream socket of IPv4: "tcp", or "smc" for the kernel's. Python does not support addresses of the latter
    family, but treats its descriptor as IPv4."""
    if family == "tcp":
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    fd = libc.socket(AF_SMC, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "socket(AF_SMC)")
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=fd)


def set_buffers(sock, buffers):
    """SO_RCVBUF, which for SMC is the size of this side's element, and SO_SNDBUF."""
    for option, size in zip((socket.SO_RCVBUF, socket.SO_SNDBUF), buffers or ()):
        # The kernel doubles the value, for TCP and for SMC.
        sock.setsockopt(socket.SOL_SOCKET, option, size // 2)


class Stream:
    """Pseudo-random bytes; both ends know them by the seed."""

    def __init__(self, seed):
        self.generator = random.Random(seed)
        self.block = self.generator.randbytes(BLOCK_BYTES)

    def part(self, count):
        # New leading bytes make every block unique, at a fraction of the cost of a new block.
        return (self.generator.randbytes(64) + self.block[64:])[:count]


class Talk:
    """One end of a connection, and its steps."""

    def __init__(self, sock, speak=None):
        self.sock, self.speak = sock, speak
        sock.settimeout(CONNECTION_SECONDS)

    def perform(self, steps):
        results = []
        for name, *arguments in steps:
            try:
                results.append(getattr(self, name)(*arguments))
            except OSError as error:
                results.append(type(error).__name__)
                break
        return results

    def send(self, count, seed=1):
        """[bytes, SHA-256] of what was sent."""
        stream, digest, left = Stream(seed), hashlib.sha256(), count
        while left:
            part = stream.part(min(left, BLOCK_BYTES))
            self.sock.sendall(part)
            digest.update(part)
            left -= len(part)
        return [count, digest.hexdigest()]

    def receive(self, limit=None, each=BLOCK_BYTES, pause=0.0):
        """[bytes, SHA-256] up to the limit, or the end of the stream. With a pause after each read, a
        slow reader."""
        digest, count = hashlib.sha256(), 0
        while limit is None or count < limit:
            part = self.sock.recv(each if limit is None else min(each, limit - count))
            if not part:
                break
            digest.update(part)
            count += len(part)
            if pause:
                time.sleep(pause)
        return [count, digest.hexdigest()]

    def pong(self, count, size):
        """Sends back `count` messages of `size` bytes."""
        for _ in range(count):
            self.sock.sendall(self.exactly(size))

    def ping(self, count, size):
        """Seconds for `count` rounds, [all, median of one]."""
        message, rounds = os.urandom(size), []
        begun = time.monotonic()
        for _ in range(count):
            before = time.monotonic()
            self.sock.sendall(message)
            if self.exactly(size) != message:
                raise AssertionError("another message came back")
            rounds.append(time.monotonic() - before)
        return [time.monotonic() - begun, sorted(rounds)[len(rounds) // 2]]

    def echo(self):
        """Sends back all data, to the end of the stream."""
        while part := self.sock.recv(BLOCK_BYTES):
            self.sock.sendall(part)

    def ask_until(self, path, size_max, seed=1):
        """Sends requests to an echo and checks its answers until the file exists: [rounds, longest wait]. Reports
        {"rounds"} at intervals, and {"resting"} when requested to rest."""
        chance = random.Random(seed)
        rounds, longest, last = 0, 0.0, time.monotonic()
        while not os.path.exists(path):
            if self.rest(path):
                last = time.monotonic()
            message = chance.randbytes(chance.randint(1, size_max))
            self.sock.sendall(message)
            if self.exactly(len(message)) != message:
                raise AssertionError("another message came back")
            now = time.monotonic()
            rounds, longest, last = rounds + 1, max(longest, now - last), now
            if rounds % PROGRESS_ROUNDS == 0:
                self.speak(rounds=rounds)
        return [rounds, round(longest, 3)]

    def send_until(self, path, seed=1):
        """Like send(), until the file exists."""
        stream, digest, count = Stream(seed), hashlib.sha256(), 0
        while not os.path.exists(path):
            self.rest(path)
            part = stream.part(BLOCK_BYTES)
            self.sock.sendall(part)
            digest.update(part)
            count += len(part)
        return [count, digest.hexdigest()]

    def rest(self, path):
        """Does nothing while a file of that name with "rest" appended exists."""
        if not os.path.exists(path + REST):
            return False
        self.speak(resting=True)
        while os.path.exists(path + REST):
            time.sleep(0.05)
        return True

    def text(self, size):
        return self.exactly(size).decode()

    def await_file(self, path):
        """Does nothing until the file exists."""
        while not os.path.exists(path):
            time.sleep(0.02)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.sock.recv(size - len(data))
            if not part:
                raise ConnectionResetError("end of stream")
            data += part
        return data

    def shutdown(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()

    def reset(self):
        """TCP: closes with RST. SMC: closes with unread data, which aborts."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def wait_input(self):
        """Waits until data can be read, and leaves it unread."""
        return bool(select.select([self.sock], [], [], CONNECTION_SECONDS)[0])

    def ending(self):
        """The end of the stream: "fin" or "reset". An SMC socket may report an abort by SO_ERROR only."""
        try:
            while self.sock.recv(BLOCK_BYTES):
                pass
        except OSError as error:
            return "reset" if isinstance(error, (ConnectionError, BrokenPipeError)) else str(error)
        return "reset" if self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) else "fin"

    def send_until_refused(self):
        """"reset" if the peer has ended; else a timeout."""
        try:
            while True:
                self.sock.sendall(bytes(BLOCK_BYTES))
        except ConnectionError:
            return "reset"

    def urgent(self, byte):
        return self.sock.send(bytes([byte]), socket.MSG_OOB)

    def inline(self):
        """From now on an urgent byte is part of the stream."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)

    def marked(self):
        """Reads one byte: [whether it was at the mark, the byte]."""
        self.wait_input()
        mark = fcntl.ioctl(self.sock, SIOCATMARK, struct.pack("i", 0))
        return [struct.unpack("i", mark)[0] != 0, self.exactly(1)[0]]

    def out_of_band(self):
        """The urgent byte, which is no part of the stream."""
        poll = select.poll()
        poll.register(self.sock, select.POLLPRI)
        if not poll.poll(1000 * CONNECTION_SECONDS):
            raise TimeoutError("no urgent byte")
        self.sock.settimeout(None)  # with a timeout Python waits for ordinary data first
        try:
            return self.sock.recv(1, socket.MSG_OOB)[0]
        finally:
            self.sock.settimeout(CONNECTION_SECONDS)

    def pause(self, seconds):
        time.sleep(seconds)

    def hold(self):
        """Keeps the connection until the other end closes it: [how, seconds]."""
        begun = time.monotonic()
        self.sock.settimeout(None)
        how = self.ending()
        return [how, round(time.monotonic() - begun, 2)]


def read_line(sock):
    line = b""
    while not line.endswith(b"\n"):
        part = sock.recv(1)
        if not part:
            return b""
        line += part
    return line


def serve(speak, family="tcp", address="0.0.0.0", port=0, buffers=None):
    """A server until it is killed. Reports {"port"}, then for each connection {"results", "key"}."""
    listener = open_socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    set_buffers(listener, buffers)
    listener.bind((address, port))
    listener.listen(1024)
    speak(port=listener.getsockname()[1])

    def handle(sock):
        try:
            sock.settimeout(CONNECTION_SECONDS)
            order = json.loads(read_line(sock) or "null")
            if order:
                sock.sendall(GREETING)
                speak(key=order["key"], results=Talk(sock).perform(order["steps"]))
        except (OSError, ValueError) as error:
            speak(key=None, results=[f"{type(error).__name__}: {error}"])
        finally:
            sock.close()

    while True:
        # accept() of Python would give the accepted socket the listener's family, which is right.
        sock, _ = listener.accept()
        threading.Thread(target=handle, args=(sock,), daemon=True).start()


serve.speaks = True


def connect(address, port, family="tcp", buffers=None, timeout=30):
    sock = open_socket(family)
    set_buffers(sock, buffers)
    sock.settimeout(timeout)
    sock.connect((address, port))
    return sock


def talk(speak, address, port, mine, theirs, family="tcp", buffers=None, count=1, at_once=1, key="",
         queue=True):
    """Opens `count` connections, `at_once` concurrently, and performs the steps on each; a list of results. Reports
    {"connected": …} each time `at_once` are open. `queue`: opens each when the previous one is established. The
    kernel needs this, because it makes its handshakes one after another with a timeout of 6 s each."""
    all_results = []
    for first in range(0, count, at_once):
        talks = []
        for index in range(first, min(count, first + at_once)):
            sock = connect(address, port, family, buffers)
            order = {"key": f"{key}{index}", "steps": theirs}
            sock.sendall(json.dumps(order).encode() + b"\n")
            talks.append(Talk(sock, speak))
            if queue:
                talks[-1].exactly(len(GREETING))
        if not queue:
            for one in talks:
                one.exactly(len(GREETING))
        speak(connected=len(talks))
        for one in talks:
            all_results.append(one.perform(mine))
            one.sock.close()
    return all_results


talk.speaks = True


def datagram(address, port, text):
    """Sends a UDP datagram, which nobody needs to receive."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(text.encode(), (address, port))


def silent(address, port):
    """Connects and sends nothing; returns the end. With the user of the proxies, the SYN carries the option."""
    with connect(address, port) as sock:
        return Talk(sock).ending()
