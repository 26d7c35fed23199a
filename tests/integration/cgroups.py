"""Memory cgroups for processes under test, in either version of the interface. Need root."""
import os
import tempfile
from pathlib import Path

V1_ROOT = Path("/sys/fs/cgroup/memory")
V2_ROOT = Path("/sys/fs/cgroup")


def missing():
    """The reason why no memory cgroup can be created here, or None."""
    if os.geteuid() != 0:
        return "needs root to make a memory cgroup"
    if (V1_ROOT / "memory.limit_in_bytes").exists():
        return None
    try:
        if "memory" in (V2_ROOT / "cgroup.subtree_control").read_text().split():
            return None
    except OSError:
        pass
    return "no memory controller: neither of cgroup v1 nor delegated in the root of v2"


class MemoryCgroup:
    """A cgroup with a memory limit, removed by close() once its processes have ended."""

    def __init__(self, limit_bytes):
        self.is_v1 = (V1_ROOT / "memory.limit_in_bytes").exists()
        self.path = Path(tempfile.mkdtemp(prefix="fairlead-test-",
                                          dir=V1_ROOT if self.is_v1 else V2_ROOT))
        if self.is_v1:
            self._write("memory.limit_in_bytes", limit_bytes)
            # Version 1 counts TCP's buffers separately, and only if they have a limit. This limit is
            # never reached; the test checks the sum.
            self._write("memory.kmem.tcp.limit_in_bytes", 1 << 40)
        else:
            self._write("memory.max", limit_bytes)
            if (self.path / "memory.swap.max").exists():
                self._write("memory.swap.max", 0)

    def _write(self, name, value):
        (self.path / name).write_text(str(value))

    def _read(self, name):
        return int((self.path / name).read_text())

    def _events(self):
        name = "memory.oom_control" if self.is_v1 else "memory.events"
        return dict(line.split() for line in (self.path / name).read_text().splitlines())

    @property
    def wrapper(self):
        """Prefix of a command that starts it in this cgroup."""
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs && exec \"$@\"", "sh"]

    def oom_kills(self):
        return int(self._events()["oom_kill"])

    def peak_bytes(self):
        """Peak of the charged memory; in version 1, the sum of the peaks of memory and of TCP."""
        if self.is_v1:
            return self._read("memory.max_usage_in_bytes") + self.tcp_peak_bytes()
        peak = self.path / "memory.peak"
        return int(peak.read_text()) if peak.exists() else self._read("memory.current")

    def tcp_peak_bytes(self):
        return self._read("memory.kmem.tcp.max_usage_in_bytes") if self.is_v1 else 0

    def used_bytes(self):
        return self._read("memory.usage_in_bytes" if self.is_v1 else "memory.current")

    def close(self):
        try:
            self.path.rmdir()
        except OSError:
            pass  # a process that a failed test left behind; the directory is empty otherwise
