"""Gets the kernel of the guests: Debian's own package, unpacked into a cache, never installed."""
import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Newest of this series: it has AF_SMC 2.1, Soft-RoCE and BTF. Not the cloud or realtime flavours.
PACKAGE = re.compile(r"^linux-image-6\.12\.[\w.+~]+-amd64$")
FLAVOURS = ("-rt-", "-cloud-", "-unsigned", "-dbg")
# Modules that a guest needs to mount the host's tree, in this order. It loads others from there.
BOOT_MODULES = ["netfs", "9pnet", "9pnet_virtio", "9p", "overlay"]
SECONDS_TO_FETCH = 300


class Unavailable(Exception):
    """The reason why the lab cannot run on this machine."""


class Kernel:
    def __init__(self, folder):
        self.image = next((folder / "boot").glob("vmlinuz-*"))
        self.version = self.image.name.removeprefix("vmlinuz-")
        self.modules = folder / "lib/modules"

    def module(self, name):
        """The bytes of a module, ready for insmod."""
        found = sorted((self.modules / self.version).glob(f"kernel/**/{name}.ko*"))
        if not found:
            raise Unavailable(f"the kernel {self.version} has no module {name}")
        data = found[0].read_bytes()
        return lzma.decompress(data) if found[0].suffix == ".xz" else data


def cache_folder():
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "fairlead-lab"
    return ROOT / ".cache/lab"


def call(*command, cwd=None):
    """Standard output, or Unavailable with the end of standard error."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS_TO_FETCH, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Unavailable(f"{' '.join(command[:2])}: {words[-1]}")
    return done.stdout


def natural(name):
    return [int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", name)]


def newest_package():
    listed = call("apt-cache", "pkgnames", "linux-image-6.12.").split()
    names = [name for name in listed
             if PACKAGE.match(name) and not any(flavour in name for flavour in FLAVOURS)]
    return max(names, key=natural, default=None)


def unpack(cache, say):
    name = newest_package()
    if name is None and os.geteuid() == 0:
        call("apt-get", "-qq", "update")
        name = newest_package()
    if name is None:
        raise Unavailable("apt knows no package linux-image-6.12.*-amd64")
    say(f"fetching {name}")
    coming = cache / f"coming.{os.getpid()}"
    try:
        coming.mkdir(parents=True)
        try:
            call("apt-get", "-q", "download", name, cwd=coming)
        except Unavailable:
            # The mirror may no longer have the versions of the lists.
            call("apt-get", "-qq", "update")
            call("apt-get", "-q", "download", name, cwd=coming)
        package = next(coming.glob("*.deb"))
        call("dpkg-deb", "-x", str(package), str(coming / "tree"))
        kernel = Kernel(coming / "tree")
        call("/sbin/depmod", "-b", str(coming / "tree"), kernel.version)
        # Renamed when complete, so that an interrupted run leaves nothing incomplete.
        (coming / "tree").rename(cache / kernel.version)
        return Kernel(cache / kernel.version)
    finally:
        shutil.rmtree(coming, ignore_errors=True)


def find(say):
    """The kernel from the cache; fetches it first if necessary."""
    cache = cache_folder()
    have = sorted(cache.glob("6.*/boot/vmlinuz-*"), key=lambda path: natural(path.name))
    if have:
        return Kernel(have[-1].parents[1])
    return unpack(cache, say)
