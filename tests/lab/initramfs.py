"""The first file system of a guest: busybox, five modules and a script that switches to the host's file tree. The
tree is shared read-only, with a layer in memory above it for files that the guest writes."""
from pathlib import Path

import kernel

BUSYBOX = Path("/bin/busybox")

INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
for module in {modules}; do $b insmod /modules/$module.ko || $b poweroff -f; done
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose root /host || $b poweroff -f
$b mount -t tmpfs -o size=60% layer /layer
$b mkdir /layer/upper /layer/work
$b mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /new || $b poweroff -f
exec $b switch_root /new /bin/sh {start}
"""


class Archive:
    """A cpio archive in the kernel's format "newc": see Documentation/driver-api/early-userspace of the kernel."""

    def __init__(self):
        self.data = bytearray()
        self.inode = 0

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(encoded), 0]
        self.data += b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        self.pad()
        self.data += content
        self.pad()

    def pad(self):
        self.data += bytes(-len(self.data) % 4)

    def finish(self):
        self.add("TRAILER!!!", 0)
        return bytes(self.data)


def build(the_kernel, start):
    """The archive; `start` is the script that runs as process 1 on the host's tree."""
    if not BUSYBOX.exists():
        raise kernel.Unavailable("no /bin/busybox; it comes with busybox-static")
    archive = Archive()
    for folder in ("bin", "dev", "host", "layer", "modules", "new"):
        archive.add(folder, 0o040755)
    archive.add("dev/console", 0o020600, device=(5, 1))
    archive.add("bin/busybox", 0o100755, BUSYBOX.read_bytes())
    for module in kernel.BOOT_MODULES:
        archive.add(f"modules/{module}.ko", 0o100644, the_kernel.module(module))
    script = INIT.format(modules=" ".join(kernel.BOOT_MODULES), start=start)
    archive.add("init", 0o100755, script.encode())
    return archive.finish()
