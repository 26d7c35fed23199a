"""What the tests beside hostile pods have in common: what a process of Fairlead may come to hold, and harmless load."""
import os
import subprocess
import sys

# Freed memory that AddressSanitizer keeps: 256 MiB by default, which would look like a leak.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"

HOSTILE_USER = ("setpriv", "--reuid=2201", "--regid=2201", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "--inh-caps=-all")
BURN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


def burn(seconds, count):
    """So many harmless programs use the processors as much as attackers do."""
    burners = [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", BURN.format(seconds=seconds)]) for _ in range(count)]
    for burner in burners:
        burner.wait()


def resident_bytes(status):
    """By the text of /proc/PID/status."""
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def growth(before, after, limits):
    """Resources that have grown by more than their limit. `limits`: {attribute: limit}"""
    return [f"{name} {getattr(before, name)} -> {getattr(after, name)}" for name, limit in limits.items()
            if getattr(after, name) - getattr(before, name) > limit]
