"""The lab: two guests on one wire."""
import time
from pathlib import Path

import kernel
from node import LabError, Node

SECONDS_TO_OPEN_THE_WIRE = 30


class Lab:
    """Two nodes on one wire, 10.9.0.1 and 10.9.0.2, each with a Soft-RoCE device rxe0."""

    def __init__(self, folder, initramfs_build, say, mtu=9000):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.say = folder, say
        self.nodes = []
        the_kernel = kernel.find(say)
        say(f"booting two nodes with {the_kernel.version}")
        image = folder / "initramfs"
        start = Path(__file__).parent / "guest/start.sh"
        image.write_bytes(initramfs_build(the_kernel, start))
        self.wire = folder / "wire"
        for old in (self.wire, folder / "agent.a", folder / "agent.b"):
            old.unlink(missing_ok=True)
        begun = time.monotonic()
        try:
            for number in (1, 2):
                self.nodes.append(Node(number, folder, the_kernel, image, self.wire, mtu))
                self.wait_for_wire()
            for node in self.nodes:
                node.connect()
        except BaseException:
            self.close()
            raise
        say(f"both are up after {time.monotonic() - begun:.0f} s")

    def power_cycle(self):
        """Starts both nodes; Node.connect() waits for them."""
        for node in self.nodes:
            node.switch_off()
        self.wire.unlink(missing_ok=True)
        for node in self.nodes:
            node.switch_on()
            self.wait_for_wire()

    def wait_for_wire(self):
        deadline = time.monotonic() + SECONDS_TO_OPEN_THE_WIRE
        while not self.wire.exists():
            self.nodes[0].check_alive()
            if time.monotonic() > deadline:
                raise LabError("QEMU opens no socket for the wire")
            time.sleep(0.05)

    def close(self):
        for node in self.nodes:
            node.kill()
