"""Goal: a sidecar that starts copes with whatever a false keeper gives it in the place of its sockets: it serves new
connections, does not hang, and uses no processor for nothing. Method: a process with root's rights in the pod takes
what a real sidecar parks, and gives the next one other kinds of descriptors."""
import contextlib
import os
import socket
import subprocess
import threading
import time

import agent_attackers
import attacked
import plugin
import steady_load
from agent_attackers import FalseKeeper
from attacked import ASKS_SECONDS, BUSY_SHARE_MAX, DRAIN_SECONDS, GAP_SECONDS, KEEPING, busy_share
from wired import harness

END_SECONDS = DRAIN_SECONDS + 2 * harness.SLOWNESS
INBOUND_PORT = 4543  # wired.py


def blocking(descriptor):
    os.set_blocking(descriptor, True)
    return descriptor


def port_of(descriptor):
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        return copy.getsockname()[1]


def of_a_unix_listener(_):
    made = socket.socket(socket.AF_UNIX)
    made.bind("")
    made.listen(1)
    return made.detach()


def of_a_connected_socket(_):
    return [one.detach() for one in socket.socketpair()][0]


def of_a_datagram_socket(_):
    return socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).detach()


def of_memory(_):
    return agent_attackers.memory_file(b"x" * 100)


def of_a_pipe(_):
    reading, writing = os.pipe()
    os.write(writing, b"x")
    os.close(writing)
    return reading


def of_an_event(_):
    return os.eventfd(1)


class FalseKeepers(attacked.Attacked):
    """A process with root's rights in a pod, in the place of the agent, at a sidecar that starts."""

    def start_victim(self):
        self.crowd = 4
        self.start_victims()
        # Only one keeper counts.
        self.agent.kill()
        self.agent.wait()

    def false_keeper(self):
        keeper = FalseKeeper(self.server, 3 * END_SECONDS)
        self.addCleanup(keeper.close)
        return keeper

    def give(self, size, description, descriptors, given):
        keeper = self.false_keeper()
        keeper.hello(1)
        # It has found its addresses busy. From now on nobody else listens there but in what it is given.
        agent_attackers.close_all(set(descriptors) - set(given))
        keeper.give(size, description, given)
        agent_attackers.close_all({description, *given})

    def park(self):
        """What the sidecar parks at its end, with all of its connections."""
        keeper = self.false_keeper()
        keeper.hello()
        self.inbound.terminate()
        parcel = keeper.take()
        try:
            self.assertEqual(self.inbound.process.wait(END_SECONDS), 0)
        except subprocess.TimeoutExpired:
            self.fail("the sidecar does not end")
        keeper.close()
        self.assertGreaterEqual(len(parcel[2]), len(self.inbound.config["listeners"]) + 2 * self.crowd)
        return parcel

    @staticmethod
    def close_parked(parcel):
        agent_attackers.close_all([parcel[1], *parcel[2]])

    def exchange(self, make, which, parked=None):
        """The next sidecar gets other descriptors than this one has parked."""
        size, description, descriptors = parked or self.park()
        listeners = len(self.inbound.config["listeners"])
        given = list(descriptors)
        for at in {"listeners": range(listeners), "connections": range(listeners, len(descriptors))}[which]:
            given[at] = make(descriptors[at])
        giver = threading.Thread(target=self.give, args=(size, description, descriptors, given), daemon=True)
        giver.start()
        self.inbound = self.sidecar(self.server, "server", KEEPING)
        giver.join(harness.seconds(10))

    @contextlib.contextmanager
    def patience(self):
        """A sidecar that hangs does not end by itself."""
        try:
            yield
        except (AssertionError, TimeoutError):
            if self.inbound.process.poll() is None:
                self.inbound.kill()
            raise

    def check_given(self, make, which):
        """It serves new connections, is not busy, and can be replaced again."""
        self.exchange(make, which)
        with self.patience():
            self.load.tell("begin")
            self.settle_after_loss()
            self.assert_not_busy(f"{make.__name__} as {which}")
            self.close_parked(self.park())

    def assert_not_busy(self, what):
        share = busy_share(self.inbound.pid, 1)
        print(f"{what}: the sidecar uses {share * 100:.0f} % of a processor")
        self.assertLess(share, BUSY_SHARE_MAX)

    def test_a_reader_that_is_slow_behind_blocking_sockets(self):
        """What one connection cannot write delays no other."""
        self.start_victim()
        with self.server.namespace():
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            listener.bind(("0.0.0.0", steady_load.PORT + steady_load.PORTS))
            listener.listen(1)
        with self.client.application():
            sender = socket.socket()
        self.addCleanup(listener.close)
        self.addCleanup(sender.close)
        for sock in (listener, sender):
            sock.settimeout(harness.seconds(5))
        sender.connect((self.server.address(), steady_load.PORT + steady_load.PORTS))
        sender.sendall(b"x")
        slow = listener.accept()[0]
        self.addCleanup(slow.close)
        slow.settimeout(harness.seconds(5))
        self.assertEqual(slow.recv(1), b"x")
        self.exchange(blocking, "connections")
        with self.patience():
            self.load.tell("begin")
            # It may have been reset.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError, TimeoutError):
                sender.settimeout(GAP_SECONDS / 4)
                for _ in range(1024):
                    sender.send(bytes(65536))
            self.settle_after_loss()
            slow.close()
            self.close_parked(self.park())

    def test_two_listeners_that_are_one(self):
        """Both report each connection, and one of them finds none to accept. Not always at the same moment."""
        self.start_victim()
        parked = self.park()
        listeners = parked[2][:len(self.inbound.config["listeners"])]
        same = next(descriptor for descriptor in listeners if port_of(descriptor) == INBOUND_PORT)
        self.exchange(lambda _: blocking(same), "listeners", parked)
        with self.patience():
            self.load.tell("quiet")
            self.load.tell("begin")
            for _ in range(8):
                self.connect_and_settle()

    def connect_and_settle(self):
        """A new connection, whatever becomes of it; the crowd is answered afterwards."""
        with self.client.application():
            caller = socket.socket()
        self.addCleanup(caller.close)
        caller.settimeout(GAP_SECONDS)
        with contextlib.suppress(ConnectionError):
            caller.connect((self.server.address(), steady_load.PORT))
            caller.sendall(b"x")
        now = time.monotonic()

        def all_answered():
            seen = self.load.tell("report")
            self.assert_no_gap(seen)
            return seen["answered_since"] > now + ASKS_SECONDS / 4
        harness.wait_until(all_answered, "connections to be answered")

    def test_a_listener_that_another_process_shuts_down(self):
        """It reports an event without end, and accepts nothing. What the sidecar has already goes on."""
        self.start_victim()
        copies = []

        def copied(descriptor):
            copies.append(socket.socket(fileno=os.dup(descriptor)))
            self.addCleanup(copies[-1].close)
            return descriptor
        self.exchange(copied, "listeners")
        with self.patience():
            for copy in copies:
                copy.shutdown(socket.SHUT_RDWR)
            self.assert_not_busy("a listener that was shut down")
            self.assertEqual(self.load.tell("report")["failed"], 0)

    def settle_after_loss(self):
        """A client whose connection was swapped for another file is reset. It connects again, and is served."""
        deadline = time.monotonic() + GAP_SECONDS

        def well():
            seen = self.load.tell("report")
            if seen["failed"] or seen["fresh_failed"]:
                self.assertLess(time.monotonic(), deadline, f"connections still fail: {seen}")
                self.load.tell("begin")
                return False
            self.assert_no_gap(seen)
            return seen["fresh_done"] > 0
        harness.wait_until(well, "connections to be lost or kept")
        self.load.tell("begin")
        self.settle()


def make_test(make, which):
    def test(self):
        self.start_victim()
        self.check_given(make, which)
    return test


LISTENERS = (blocking, of_a_unix_listener, of_a_connected_socket, of_a_datagram_socket, of_memory, of_a_pipe,
             of_an_event)
CONNECTIONS = (blocking, of_a_unix_listener, of_a_datagram_socket, of_an_event)
for kind, makers in (("listeners", LISTENERS), ("connections", CONNECTIONS)):
    for maker in makers:
        setattr(FalseKeepers, f"test_{maker.__name__}_as_{kind}", make_test(maker, kind))


if __name__ == "__main__":
    plugin.main()
