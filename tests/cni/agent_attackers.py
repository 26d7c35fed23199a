"""Processes of a hostile pod, and a keeper of sidecars that is none.

An attacker is a process of its own: what a user has in flight is counted for the user, and what a process holds, for
its limits. It has the uid of a sidecar, in the network namespace of its pod. It says what it has done, one line each,
and goes on with some of it when it is told to.
"""
import contextlib
import errno
import fcntl
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import termios
import time

import plugin
import keeper_record
from keeper_record import DESCRIPTORS, DESCRIPTORS_OF_RECORD, HELLO, PARCEL, REFUSED, TAKEN

SIDECAR_UID = 2201
KEEPER = "\0fairlead-keeper"
LINGER_SECONDS = 3600
PATIENCE_SECONDS = 60
WATCHERS = 190  # epoll instances and copies, within a limit of descriptors
RECORDS = 12000  # of one descriptor each
RETRY_SECONDS = 0.001  # while more is in flight than the kernel permits


def send(link, data, descriptors=()):
    """What the receiver has not read may be in the way for a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.send_fds(link, [data], descriptors)
            return
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)


def hear(link):
    """Kind, whether a parcel follows, a number, the length of a description and descriptors; None at the end. Records
    of kinds that this module does not know are passed over."""
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(link, 64, DESCRIPTORS_OF_RECORD)
        except ConnectionResetError:
            return None
        if not data:
            return None
        heard = keeper_record.unpack(data)
        if heard.kind <= REFUSED:
            return heard.kind, heard.holds, heard.count, heard.size, descriptors
        close_all(descriptors)


def close_all(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


def memory_file(content=b""):
    made = os.memfd_create("description", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(made, content)
    fcntl.fcntl(made, fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL)
    return made


def send_parcel(link, size, description, descriptors):
    send(link, keeper_record.pack(PARCEL, count=len(descriptors), size=size), [description])
    for at in range(0, len(descriptors), DESCRIPTORS_OF_RECORD):
        part = descriptors[at:at + DESCRIPTORS_OF_RECORD]
        send(link, keeper_record.pack(DESCRIPTORS, count=len(part)), part)


class FalseKeeper:
    """Root of a pod in the place of the node agent: takes what a sidecar parks, and gives the next one what it likes."""

    def __init__(self, pod, timeout):
        with pod.namespace():
            self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(timeout)
        plugin.wait_until(lambda: self.link.connect_ex(KEEPER) == 0, "a sidecar that listens for its keeper")

    def hello(self, holds=0):
        send(self.link, keeper_record.pack(HELLO, count=32768, size=64 << 20, holds=holds))
        # The other end has read it.
        plugin.wait_until(self.all_is_read, "the sidecar to read")

    def all_is_read(self):
        return struct.unpack("i", fcntl.ioctl(self.link, termios.TIOCOUTQ, bytes(4)))[0] == 0

    def take(self):
        """The length of the description, its file, and the descriptors."""
        kind, _, count, size, (description,) = hear(self.link)
        assert kind == PARCEL
        descriptors = []
        while len(descriptors) < count:
            descriptors += hear(self.link)[4]
        send(self.link, keeper_record.pack(TAKEN, count=count))
        return size, description, descriptors

    def give(self, size, description, descriptors):
        send_parcel(self.link, size, description, descriptors)

    def close(self):
        self.link.close()


class Attacker:
    """The tests' end of one."""

    def __init__(self, folder, pod, name, *arguments, uid=SIDECAR_UID):
        self.said_path = folder / f"{pod.name}.{name}.said"
        with open(self.said_path, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-B", __file__, pod.path, str(uid), name, *map(str, arguments)],
                stdin=subprocess.PIPE, stdout=said)

    def has_said(self, word):
        assert self.process.poll() is None, f"the attacker ended; it said {self.said()}"
        return word in self.said()

    def said(self):
        return self.said_path.read_text(encoding="ascii").split()

    def go_on(self):
        self.process.stdin.write(b"go on\n")
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


# From here on: what runs in an attacker's process.


def say(word):
    print(word, flush=True)


def wait_for_word():
    if not sys.stdin.buffer.readline():
        sys.exit(0)


class KeeperEnd:
    """The end of the keeper's protocol that a sidecar has."""

    def __init__(self):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(KEEPER)
        self.listener.listen(4)
        self.link = None

    def accept(self):
        if self.link:
            self.link.close()
        self.link = self.listener.accept()[0]

    def greeted(self):
        """Accepts; returns what the keeper says first."""
        while True:
            self.accept()
            first = hear(self.link)
            if first:
                return first

    def park(self, make):
        """Parks the descriptors that make(count) gives, as many as the keeper permits. Returns their number."""
        wanted = self.greeted()[2]
        while True:
            # Nothing else refers to them when they are there: the agent's close(2) will be the last.
            descriptors = make(wanted)
            number = len(descriptors)
            try:
                self.send_parcel(descriptors)
                answer = hear(self.link)
            except (BrokenPipeError, ConnectionResetError):
                answer = None
            close_all(set(descriptors))
            if answer and answer[0] == TAKEN:
                return number
            wanted //= 2
            assert wanted > 0, "the agent takes nothing"
            self.greeted()

    def send_parcel(self, descriptors):
        with open(memory_file(), "rb") as description:
            send_parcel(self.link, 0, description.fileno(), descriptors)

    def refuse(self):
        """Gets what is kept, has none of it any more, and refuses it."""
        first = self.greeted()
        while not first[1]:
            first = self.greeted()
        _, _, count, _, description = hear(self.link)
        close_all(description)
        while count:
            descriptors = hear(self.link)[4]
            close_all(descriptors)
            count -= len(descriptors)
        send(self.link, keeper_record.pack(REFUSED, refusal=keeper_record.MALFORMED))


class Lingering:
    """TCP sockets whose last close(2) waits for a peer that does not read."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.others = []

    def make(self):
        made = socket.socket()
        made.connect(self.listener.getsockname())
        self.others.append(self.listener.accept()[0])
        made.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while made.send(bytes(65536)):
                pass
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_SECONDS))
        return made.detach()

    def within_a_unix_socket(self):
        """One that lies unread in another socket, and is closed with it."""
        kept, other = socket.socketpair()
        inner = self.make()
        socket.send_fds(other, [b"x"], [inner])
        os.close(inner)
        other.close()
        return kept.detach()


def filler():
    """Kinds of descriptors that close at once."""
    epoll = select.epoll()
    return [*os.pipe(), memory_file(), os.dup(epoll.fileno()), socket.socket().detach()]


def repeat(descriptors, count):
    return (descriptors * (count // len(descriptors) + 1))[:count]


@contextlib.contextmanager
def watchers(sock, count, events=select.EPOLLIN):
    """Epoll instances that all watch copies of this socket: who wakes it, wakes them all."""
    descriptors = [os.dup(sock.fileno()) for _ in range(count)]
    instances = [select.epoll() for _ in range(count)]
    for instance in instances:
        for descriptor in descriptors:
            instance.register(descriptor, events | select.EPOLLET)
    try:
        yield
    finally:
        for instance in instances:
            instance.close()
        close_all(descriptors)


def deaf_sender(how):
    """A whole parcel, of which the sender does not hear the answer."""
    end = KeeperEnd()
    descriptors = [] if how != "descriptors" else [end.listener.fileno()] * 3
    for _ in range(3):
        if how == "early":  # behind another one, so that the keeper pauses before it takes this
            end.park(lambda count: [os.dup(0)])
            first = end.greeted()
            while not first[1]:
                first = end.greeted()
            for _ in range(2):
                close_all(hear(end.link)[4])
            send(end.link, keeper_record.pack(TAKEN))
        elif how == "unread":
            end.accept()
        else:
            end.greeted()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if how != "closed":
                end.link.shutdown(socket.SHUT_RD)
            end.send_parcel(descriptors)
    end.greeted()
    say("done")
    wait_for_word()


def linger(how, count, behind):
    """Parks `count` descriptors of which the first lingers, and as many behind them that do, too. Refuses them."""
    end, lingering, fill = KeeperEnd(), Lingering(), filler()
    make_one = lingering.make if how == "tcp" else lingering.within_a_unix_socket

    first, *last = [make_one() for _ in range(1 + int(behind))]

    # Copies, because a close(2) of this process that is the last one would wait as well.
    def make(most):
        copies = [os.dup(descriptor) for descriptor in fill]
        middle = repeat(copies, min(int(count), most) - 1 - len(last))
        return [os.dup(first)] + middle + [os.dup(one) for one in last]
    say(f"parked={end.park(make)}")
    close_all([first, *last])
    say("parked")
    end.refuse()
    say("refused")
    wait_for_word()


def hoard(count, most):
    """Begins a parcel of `count` descriptors, sends `most` of them, and begins again when it is sent away. If it is
    refused, the next one has half that number."""
    end = KeeperEnd()
    number = int(count)
    say("ready")
    wait_for_word()
    while True:
        end.greeted()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            with open(memory_file(), "rb") as description:
                send(end.link, keeper_record.pack(PARCEL, count=number), [description.fileno()])
            for _ in range(min(int(most), number - 1) // DESCRIPTORS_OF_RECORD):
                send(end.link, keeper_record.pack(DESCRIPTORS, count=DESCRIPTORS_OF_RECORD), [end.listener.fileno()] * DESCRIPTORS_OF_RECORD)
            say("sent")
        answer = hear(end.link)
        say("answered")
        if answer and answer[0] == REFUSED:
            number = max(number // 2, 2 * DESCRIPTORS_OF_RECORD)


def knock(where):
    """Accepts the keeper and closes, or sends records that the keeper has to read, with epoll watchers where they cost
    the keeper most."""
    end = KeeperEnd()
    say("ready")
    with watchers(end.listener, WATCHERS) if where == "listener" else contextlib.nullcontext():
        while True:
            end.accept()
            if where == "connection":
                with watchers(end.link, WATCHERS // 3):
                    hear(end.link)
            elif where == "records":
                most = min(hear(end.link)[2], RECORDS)
                with watchers(end.link, WATCHERS, select.EPOLLOUT), \
                        contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    with open(memory_file(), "rb") as description:
                        send(end.link, keeper_record.pack(PARCEL, count=most), [description.fileno()])
                    for _ in range(most - 1):
                        send(end.link, keeper_record.pack(DESCRIPTORS, count=1), [end.listener.fileno()])


def park_and_do_not_read(count):
    end = KeeperEnd()
    say(f"parked={end.park(lambda most: [os.dup(0)] * min(int(count), most))}")
    while not end.greeted()[1]:
        pass
    say("parked")
    wait_for_word()


def fill_socket(count):
    """Leaves so many descriptors unread in a socket."""
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    left = int(count)
    while left > 0:
        part = min(left, 250)
        socket.send_fds(sender, [b"x"], [receiver.fileno()] * part)
        left -= part
    say("filled")
    wait_for_word()


def send_descriptors(messages):
    """Sends descriptors to itself, and says how many messages the kernel refused."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    refused = 0
    for _ in range(int(messages)):
        try:
            socket.send_fds(sender, [b"x"], [0])
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            refused += 1
        else:
            close_all(socket.recv_fds(receiver, 16, 1)[1])
    say(f"refused={refused}")
    say("done")
    wait_for_word()


ATTACKS = {function.__name__: function for function in (
    deaf_sender, linger, hoard, knock, park_and_do_not_read, fill_socket, send_descriptors)}


def run(namespace, uid, name, *arguments):
    if namespace != "-":
        with open(namespace, encoding="ascii") as file:
            plugin.enter(file)
    if namespace != "-" and uid == "0":  # root of a container without capabilities
        os.execvp("setpriv", ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", sys.executable,
                              "-B", __file__, "-", uid, name, *arguments])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if uid != "0":
        os.setgroups([])
        os.setresgid(int(uid), int(uid), int(uid))
        os.setresuid(int(uid), int(uid), int(uid))
    ATTACKS[name](*arguments)


if __name__ == "__main__":
    run(*sys.argv[1:])
