"""A sidecar in a container of 64 MiB whose memory.limit is 32 MiB. A thousand connections each way
stall, at both ends and in both directions of the stream. No process is killed and existing connections
continue. Connections without memory use TCP, then are refused, each with its reason."""
import contextlib
import selectors
import socket
import unittest

import cgroups
import peers
from harness import ProxyTest, VARIANT, join, listener, main, sanitized, wait_until

CONTAINER_BYTES = 64 << 20
LIMIT = "32MiB"
COUNT = 1000
# More than the rings and sockets of a connection hold at any of their sizes.
PUSHED_MAX = 64 << 20
BLOCK = bytes(256 * 1024)


class Stalled:
    """Sockets that are filled and never read."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.pushed = {}
        self.ended = 0

    def add(self, sock):
        sock.setblocking(False)
        self.pushed[sock] = 0
        self.selector.register(sock, selectors.EVENT_WRITE)

    def push(self, timeout):
        """Writes as much as the sockets accept now; returns the number of bytes."""
        moved = 0
        for key, _ in self.selector.select(timeout):
            sock = key.fileobj
            try:
                count = sock.send(BLOCK)
            except BlockingIOError:
                continue
            except OSError:
                self.drop(sock)
                continue
            moved += count
            self.pushed[sock] += count
            if self.pushed[sock] > PUSHED_MAX:
                raise AssertionError("a connection whose reader stalls takes without end")
        return moved

    def drop(self, sock):
        self.selector.unregister(sock)
        del self.pushed[sock]
        sock.close()
        self.ended += 1

    def close(self):
        for sock in list(self.pushed):
            self.drop(sock)
        self.selector.close()


class Application:
    """Listens; accepted connections stall."""

    def __init__(self, stalled):
        self.stalled = stalled
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        self.address = self.listener.getsockname()

    def accept(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.stalled.add(self.listener.accept()[0])

    def close(self):
        self.listener.close()


class Memory(ProxyTest):
    def setUp(self):
        if why := cgroups.missing():
            raise unittest.SkipTest(why)
        if sanitized():
            raise unittest.SkipTest("the memory of the sanitizers does not fit the container")
        super().setUp()
        allowed = peers.raise_descriptor_limit(self)
        if allowed < 4 * COUNT + 1000:
            raise unittest.SkipTest(f"needs {4 * COUNT + 1000} descriptors, {allowed} are allowed")
        self.stalled = Stalled()
        self.addCleanup(self.stalled.close)
        self.echo = peers.serve(self, peers.echo)
        self.cgroups = {}

    def start_contained(self, name, listeners):
        group = cgroups.MemoryCgroup(CONTAINER_BYTES)
        self.cgroups[name] = group
        proxy = self.start(name, listeners, {"memory": {"limit": LIMIT}, "log": {"level": "info"}},
                           wrapper=group.wrapper)
        # Before the folder is removed, after the processes have ended.
        self._cleanups.insert(0, (group.close, (), {}))
        return proxy

    def start_both(self):
        """Two sidecars, each with an application and clients beside it."""
        self.applications = [Application(self.stalled), Application(self.stalled)]
        for application in self.applications:
            self.addCleanup(application.close)
        # Each needs the other's address. A bound socket that does not listen reserves a port.
        kept = socket.socket()
        self.addCleanup(kept.close)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        here = self.start_contained("here", [
            listener("in", "inbound", self.applications[0].address),
            listener("echo-in", "inbound", self.echo.address),
            listener("out", "outbound", kept.getsockname())])
        there = self.start_contained("there", [
            listener("in", "inbound", self.applications[1].address, join(kept.getsockname())),
            listener("out", "outbound", here.address("in")),
            listener("echo-out", "outbound", here.address("echo-in"))])
        return here, there

    def storm(self, entries):
        """COUNT connections through each entry, which send and never read, until no byte moves."""
        for _ in range(COUNT):
            for entry in entries:
                try:
                    self.stalled.add(peers.connect(entry))
                except OSError:
                    self.stalled.ended += 1  # refused
            self.turn(0)
        quiet = 0

        def standstill():
            nonlocal quiet
            quiet = 0 if self.turn(0.2) else quiet + 1
            return quiet >= 5
        wait_until(standstill, "all connections to stall", 60)

    def turn(self, timeout):
        for application in self.applications:
            application.accept()
        for proxy in self.proxies:
            self.assertIsNone(proxy.process.poll(), f"{proxy.name} was killed: "
                              f"{ {name: g.oom_kills() for name, g in self.cgroups.items()} }")
        return self.stalled.push(timeout)

    def judge(self):
        for name, group in self.cgroups.items():
            print(f"{name}: peak {group.peak_bytes() >> 10} KiB, of that TCP "
                  f"{group.tcp_peak_bytes() >> 10} KiB, {group.oom_kills()} killed")
        for name, group in self.cgroups.items():
            self.assertEqual(group.oom_kills(), 0, name)
            self.assertLessEqual(group.peak_bytes(), CONTAINER_BYTES, name)

    def test_stalled_connections_each_way(self):
        here, there = self.start_both()
        with peers.connect(there.address("echo-out")) as early:
            peers.assert_echo(early, b"early" * 1000)
            self.storm([there.address("out"), here.address("out")])
            for proxy in self.proxies:
                metrics = proxy.metrics()
                print(proxy.name, "smcr", metrics.connections("smcr"), "tcp",
                      metrics.connections("tcp"), metrics.fallbacks(), "refused",
                      metrics.value("fairlead_memory_refused_total"))
            self.judge()
            peers.assert_echo(early, b"still here" * 10_000)
            # The sidecar that is full first keeps connections from the other, which may then have free memory.
            refusing = [proxy for proxy in (here, there)
                        if proxy.metrics().value("fairlead_memory_refused_total") > 0]
            self.assertNotEqual(refusing, [])
            for proxy in refusing:
                self.assertIn("reason=memory", proxy.log())
            for proxy in (here, there):
                metrics = proxy.metrics()
                if VARIANT != "tcp":
                    self.assertGreater(metrics.connections("smcr"), 0, proxy.name)
                    self.assertGreater(metrics.fallbacks().get(("memory", "local"), 0) +
                                       metrics.fallbacks().get(("memory", "peer"), 0), 0)
        self.stalled.close()
        self.wait_idle()
        with peers.connect(there.address("echo-out")) as late:
            peers.assert_echo(late, b"late" * 1000)


if __name__ == "__main__":
    main()
