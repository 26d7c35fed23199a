"""A network namespace for a test program, whose counters and limits no other test touches."""
import ctypes
import os
import shutil
import subprocess
import unittest

CLONE_NEWNET = 0x40000000


def enter():
    """Moves this process, and what it starts, into a new network namespace. Skips the test where there can be none."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise unittest.SkipTest("needs root and ip for a network namespace of its own")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise unittest.SkipTest(f"no network namespace can be made: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
