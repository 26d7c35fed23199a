"""Connections that are idle, as many as a memory limit promises (docs/configuration.md), and then all used at once."""
import contextlib
import multiprocessing
import os
import selectors
import unittest

import cgroups
import peers
from crowd_test import EchoLoop
from harness import ProxyTest, listener, main, sanitized, seconds, wait_until

MESSAGE = b"hello, idle connection"
DESCRIPTORS_A_CONNECTION = 2  # of a proxy
DESCRIPTORS_OF_A_PROXY = 500
LARGE_BYTES = 20_000
CGROUP_BYTES = 2 << 30


def serve(near_end, pipe):
    """In a process of its own, because each process may have only so many descriptors."""
    near_end.close()
    server = EchoLoop()
    pipe.send(server.address)
    with contextlib.suppress(EOFError):
        pipe.recv()
    server.close()


class Idle(ProxyTest):
    def setUp(self):
        super().setUp()
        self.descriptors = peers.raise_descriptor_limit(self)
        self.pipe, far_end = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=serve, args=(self.pipe, far_end))
        process.start()
        far_end.close()
        self.addCleanup(process.join)
        self.addCleanup(self.pipe.send, None)
        self.server = self.pipe.recv()

    def open(self, count, limit):
        memory = {"memory": {"limit": limit}}
        self.groups = {}
        self.inbound = self.start_measured("in", listener("in", "inbound", self.server), memory)
        self.outbound = self.start_measured("out", listener("out", "outbound", self.inbound.address("in")), memory)
        self.entry = self.outbound.address("out")
        self.used_before = {name: group.used_bytes() for name, group in self.groups.items()}
        socks = []
        self.addCleanup(lambda: [sock.close() for sock in socks])
        for _ in range(count):
            sock = peers.connect(self.entry)
            sock.settimeout(seconds(30))
            socks.append(sock)
        wait_until(lambda: all(proxy.metrics().active() == count for proxy in self.proxies), "all connections", 60)
        return socks

    def start_measured(self, name, entrance, options):
        """In a memory cgroup, where there are some."""
        if cgroups.missing():
            return self.start(name, [entrance], options)
        group = self.groups[name] = cgroups.MemoryCgroup(CGROUP_BYTES)
        proxy = self.start(name, [entrance], options, wrapper=group.wrapper)
        # Before the folder is removed, after the processes have ended.
        self._cleanups.insert(0, (group.close, (), {}))
        return proxy

    def check(self, count, limit):
        socks = self.open(count, limit)
        for sock in socks:
            sock.sendall(MESSAGE)
        for sock in socks:
            self.assertEqual(peers.receive_exactly(sock, len(MESSAGE)), MESSAGE)
        for proxy in self.proxies:
            metrics = proxy.metrics()
            used = metrics.value("fairlead_memory_bytes", use="connections")
            needed = "not measured" if proxy.name not in self.groups else \
                f"{(self.groups[proxy.name].used_bytes() - self.used_before[proxy.name]) / count / 1024:.1f} KiB used"
            print(f"{proxy.name}: {count} idle connections in {limit}, for each {used / count / 1024:.1f} KiB reserved, {needed}")
            self.assertEqual(metrics.value("fairlead_memory_refused_total"), 0)
        return socks

    def use_at_once(self, socks):
        """All send and read at the same time."""
        selector = selectors.DefaultSelector()
        block = os.urandom(LARGE_BYTES)
        left = {}
        for sock in socks:
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
            left[sock] = [memoryview(block), 0]
        done = 0

        def turn():
            nonlocal done
            for key, events in selector.select(0.2):
                sock = key.fileobj
                state = left[sock]
                if events & selectors.EVENT_WRITE and state[0]:
                    state[0] = state[0][sock.send(state[0]):]
                    if not state[0]:
                        selector.modify(sock, selectors.EVENT_READ)
                if events & selectors.EVENT_READ:
                    part = sock.recv(65536)
                    self.assertTrue(part, "a connection ended")
                    self.assertEqual(part, block[state[1]:state[1] + len(part)])
                    state[1] += len(part)
                    if state[1] == LARGE_BYTES:
                        selector.unregister(sock)
                        done += 1
            return done == len(socks)
        wait_until(turn, "all bytes to come back", 120)

    def test_a_thousand_in_32_mib(self):
        socks = self.check(1000, "32MiB")
        self.use_at_once(socks[:200] if sanitized() else socks)
        for proxy in self.proxies:
            self.assertEqual(proxy.metrics().active(), len(socks))

    def test_ten_thousand_in_512_mib(self):
        if sanitized():
            raise unittest.SkipTest("ten thousand connections take too long with sanitizers")
        count = min(10_000, (self.descriptors - DESCRIPTORS_OF_A_PROXY) // DESCRIPTORS_A_CONNECTION)
        if count < 10_000:
            print(f"{count} instead of 10000: a process may have {self.descriptors} descriptors")
        self.check(count, "512MiB")


if __name__ == "__main__":
    main()
