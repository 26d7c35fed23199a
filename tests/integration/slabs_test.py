"""Memory for rings is returned to the system after a burst, while its link groups remain."""
import re
from pathlib import Path

import peers
from crowd_test import EchoLoop
from harness import ProxyTest, VARIANT, main, wait_until

COUNT = 300  # two link groups
ELEMENT_BYTES = 256 << 10
SLAB_BYTES = 8 << 20
MESSAGE = bytes(range(256)) * 1024  # all of a ring


def shared_bytes(proxy):
    """Bytes of shared memory that the process has mapped."""
    total = 0
    for line in Path(f"/proc/{proxy.pid}/maps").read_text().splitlines():
        if "/memfd:" in line:
            begin, end = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line).groups()
            total += int(end, 16) - int(begin, 16)
    return total


def resident_shared_bytes(proxy):
    status = Path(f"/proc/{proxy.pid}/status").read_text()
    return int(re.search(r"^RssShmem:\s+(\d+) kB$", status, re.MULTILINE).group(1)) << 10


class Slabs(ProxyTest):
    options = {"buffers": {"size": "256KiB", "idle_timeout": "1s"}, "memory": {"limit": "2GiB"}}

    def setUp(self):
        super().setUp()
        self.server = EchoLoop()
        self.addCleanup(self.server.close)
        self.start_pair(self.server.address)

    def pinned(self, proxy):
        return proxy.metrics().value("fairlead_pinned_memory_bytes")

    def groups(self, proxy):
        return len(proxy.get_json("/linkgroups")["link_groups"])

    def talk(self, sock):
        for at in range(0, len(MESSAGE), 65536):
            sock.sendall(MESSAGE[at:at + 65536])
            self.assertEqual(peers.receive_exactly(sock, 65536), MESSAGE[at:at + 65536])

    def burst(self, count):
        socks = []
        try:
            for _ in range(count):
                socks.append(peers.connect(self.entry))
            for sock in socks:
                self.talk(sock)
            for proxy in self.proxies:
                self.assertGreaterEqual(self.pinned(proxy), count * ELEMENT_BYTES, proxy.name)
        finally:
            for sock in socks:
                sock.close()

    def wait_returned(self):
        for proxy in self.proxies:
            # Each group keeps one slab of receive rings, and one of send rings if it has any.
            slabs = self.groups(proxy) * (2 if VARIANT == "staged" else 1)
            wait_until(lambda: self.pinned(proxy) <= slabs * SLAB_BYTES,
                       f"the slabs of {proxy.name} to go back; {self.pinned(proxy)} bytes are left")
            # The peer's slabs and the channel are also mapped.
            own_and_peers = 2 * self.groups(proxy) * SLAB_BYTES + (1 << 20)
            wait_until(lambda: shared_bytes(proxy) <= own_and_peers,
                       f"{proxy.name} to unmap what went back; {shared_bytes(proxy)} bytes are mapped")
            self.assertLessEqual(resident_shared_bytes(proxy), own_and_peers, proxy.name)
            memory = proxy.metrics()
            self.assertLessEqual(memory.value("fairlead_memory_bytes", use="rings"),
                                 slabs * SLAB_BYTES)
            self.assertLessEqual(memory.value("fairlead_memory_bytes", use="peer_rings"),
                                 self.groups(proxy) * SLAB_BYTES)

    def returned(self):
        return [proxy.metrics().value("fairlead_slabs_returned_total") for proxy in self.proxies]

    def test_a_burst_leaves_no_more_than_one_connection(self):
        with peers.connect(self.entry) as early:
            self.talk(early)
            self.burst(COUNT)
            self.wait_returned()
            before = self.returned()
            for count in before:
                self.assertGreaterEqual(count, COUNT * ELEMENT_BYTES // SLAB_BYTES - 3)
            self.talk(early)
            # Slabs with new keys, which are freed as well.
            self.burst(COUNT // 3)
            self.wait_returned()
            for now, then in zip(self.returned(), before):
                self.assertGreater(now, then)
            self.talk(early)
        self.wait_idle()
        for proxy in self.proxies:
            self.assertEqual(proxy.metrics().value("fairlead_connections_reset_total"), 0)
            self.assertEqual(proxy.metrics().value("fairlead_link_events_total", event="failed"), 0)


if __name__ == "__main__":
    main()
