"""Many clients that never finish their requests, for tests of HTTP servers."""
import resource
import select
import socket
import threading
import time

from suite import SLOWNESS

CROWD = 1000
ATTEMPTS = 5000
PROBES = 60
PROBE_SECONDS_MAX = 1
ROUNDS_MAX = 5
BATCH = 250  # connections that are opened between two pauses: some thousand a second


def allow_descriptors(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        wanted = hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class SlowClients(threading.Thread):
    """Keeps CROWD connections open, from the address `source`. They send `first` and then single bytes at intervals.
    A connection that the server closes is opened again."""

    def __init__(self, address, first, source):
        super().__init__(daemon=True)
        self.address, self.first, self.source = address, first, source
        self.attempts = 0
        self.open = {}
        self.poll = select.poll()
        self.stopping = threading.Event()
        allow_descriptors(CROWD)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join()

    def connect(self):
        self.attempts += 1
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        client.setblocking(False)
        client.bind((self.source, 0))
        client.connect_ex(self.address)
        self.open[client.fileno()] = client
        self.poll.register(client, select.POLLIN | select.POLLOUT)

    def forget(self, descriptor):
        self.poll.unregister(descriptor)
        self.open.pop(descriptor).close()

    def run(self):
        while not self.stopping.wait(0.05):
            for _ in range(min(BATCH, CROWD - len(self.open))):
                self.connect()
            for descriptor, events in self.poll.poll(0):
                try:
                    if events & (select.POLLIN | select.POLLERR | select.POLLHUP):
                        self.forget(descriptor)
                    elif events & select.POLLOUT:
                        self.open[descriptor].send(self.first)
                        # From here on it sends nothing until the server closes it.
                        self.poll.modify(descriptor, select.POLLIN)
                except OSError:
                    self.forget(descriptor)
        for client in self.open.values():
            client.close()


def slowest(probe, interval):
    """Duration of the slowest of PROBES calls, in seconds. They begin at least `interval` seconds apart."""
    times = []
    for _ in range(PROBES):
        begin = time.monotonic()
        probe()
        times.append(time.monotonic() - begin)
        time.sleep(max(0, interval - times[-1]))
    return max(times)


def assert_probes_are_answered(test, address, probe, first, source="127.0.0.1", interval=0):
    """`probe` sends a request to the server at `address` and checks the answer, at most once in `interval` seconds: a
    server may limit the rate of each source. The duration is checked on the optimised build only. The best of several
    rounds counts, because other programs may use the processors."""
    for _ in range(ROUNDS_MAX):
        control = slowest(probe, interval)
        with SlowClients(address, first, source) as crowd:
            taken = slowest(probe, interval)
            # The slow clients and the probes continue until there were enough attempts.
            while crowd.attempts < ATTEMPTS:
                taken = max(taken, slowest(probe, interval))
        print(f"slowest of {PROBES} probes: {taken * 1000:.1f} ms beside {CROWD} slow clients "
              f"({crowd.attempts} attempts), {control * 1000:.1f} ms without")
        limit = max(PROBE_SECONDS_MAX, 4 * control)
        if SLOWNESS > 1 or taken < limit:
            return
    test.assertLess(taken, limit)
