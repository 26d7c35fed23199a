"""Applications in front of and behind a proxy: servers in threads, and data with checksums."""
import contextlib
import hashlib
import random
import resource
import select
import socket
import struct
import threading

from harness import seconds, wait_until

BLOCK_BYTES = 256 * 1024


def raise_descriptor_limit(test):
    """As far as this process may, until the test ends. Returns the number of descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    test.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    return hard


def connect(address, timeout=20, receive_buffer=None, source=None):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    if receive_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    made.settimeout(seconds(timeout))
    try:
        if source:
            made.bind((source, 0))
        made.connect(address[:2])
    except OSError:
        made.close()
        raise
    return made


def reset(sock):
    """Closes the connection with a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def receive_all(sock):
    """Reads until FIN."""
    parts = []
    while part := sock.recv(BLOCK_BYTES):
        parts.append(part)
    return b"".join(parts)


def receive_exactly(sock, count):
    data = bytearray()
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise AssertionError(f"end of stream after {len(data)} of {count} bytes")
        data += part
    return bytes(data)


def assert_echo(sock, message):
    """Sends a message to an echo server, and reads it back."""
    sock.sendall(message)
    got = receive_exactly(sock, len(message))
    assert got == message, f"sent {message[:100]!r}, received {got[:100]!r}"


def wait_event(sock, events, what):
    """Waits for one of these events of poll(2)."""
    poll = select.poll()
    poll.register(sock, events)
    assert poll.poll(1000 * seconds(20)), f"no event: {what}"


def exchange(address, message):
    """Sends data and FIN, and returns everything received."""
    with connect(address) as sock:
        sock.sendall(message)
        sock.shutdown(socket.SHUT_WR)
        return receive_all(sock)


def ends_in_reset(sock):
    """Reads to the end; True when the end was a RST, False when it was a FIN."""
    try:
        while sock.recv(BLOCK_BYTES):
            pass
        return False
    except (ConnectionResetError, BrokenPipeError):
        return True


def meets_reset(address):
    """Connects and reads to the end; True if that was a RST, also if connect(2) already reported it."""
    try:
        with connect(address) as sock:
            return ends_in_reset(sock)
    except ConnectionResetError:
        return True


class Digest:
    """SHA-256 and length of a stream."""

    def __init__(self):
        self.count = 0
        self.hash = hashlib.sha256()

    def add(self, data):
        self.count += len(data)
        self.hash.update(data)

    def value(self):
        return self.count, self.hash.hexdigest()


def send_random(sock, count, seed):
    """Sends `count` pseudo-random bytes and returns the expected result of the receiver."""
    digest = Digest()
    generator = random.Random(seed)
    block = generator.randbytes(BLOCK_BYTES)
    while digest.count < count:
        # New leading bytes make every block unique, at a fraction of the cost of a new block.
        part = (generator.randbytes(64) + block[64:])[:count - digest.count]
        sock.sendall(part)
        digest.add(part)
    return digest.value()


def receive_digest(sock):
    digest = Digest()
    while part := sock.recv(BLOCK_BYTES):
        digest.add(part)
    return digest.value()


class Task(threading.Thread):
    """A function in a thread; join() gives its result or raises what it raised."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.function, self.arguments = function, arguments
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:  # raised again in the thread that joins
            self.error = error

    def finish(self, timeout=60):
        self.join(seconds(timeout))
        if self.is_alive():
            raise AssertionError(f"{self.function.__name__} did not end in time")
        if self.error is not None:
            raise self.error
        return self.result


class Server:
    """Listens on a free port; `handle(sock)` runs in a thread for each connection."""

    def __init__(self, handle, host="127.0.0.1", port=0, listener=None):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = listener or socket.create_server((host, port), family=family, backlog=1024)
        self.address = self.listener.getsockname()[:2]
        self.handle = handle
        self.tasks = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(seconds(60))
            self.tasks.append(Task(self._serve, sock))

    def _serve(self, sock):
        with sock:
            return self.handle(sock)

    def results(self, count=1, timeout=60):
        """Results of `handle` for the connections so far; there must be `count` of them."""
        wait_until(lambda: len(self.tasks) >= count, f"{count} connections")
        return [task.finish(timeout) for task in self.tasks]

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def serve(test, handle, **how):
    """A server that listens until the test ends."""
    server = Server(handle, **how)
    test.addCleanup(server.close)
    return server


def echo(sock):
    """Echoes all data until FIN."""
    while part := sock.recv(BLOCK_BYTES):
        sock.sendall(part)


def echo_at_end(sock):
    """Answers only after FIN."""
    sock.sendall(receive_all(sock))


def receive_exactly_digest(sock, count):
    """Like receive_digest(), but for `count` bytes of a stream that continues."""
    digest = Digest()
    while digest.count < count:
        part = sock.recv(min(BLOCK_BYTES, count - digest.count))
        if not part:
            raise AssertionError(f"end of stream after {digest.count} of {count} bytes")
        digest.add(part)
    return digest.value()
