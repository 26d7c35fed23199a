"""Ports for programs that a test starts and that cannot choose a port themselves.

A port that bind() with port 0 has given and that was closed again may be anybody's before the program binds it: of another
test, or of a connection as its own end. These ports are neither.
"""
import random
import socket
from pathlib import Path

LOWEST = 20000  # below are those that programs have by default
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def _candidates():
    """Ports that the kernel gives nobody of its own accord; all of them where it gives all."""
    first, last = map(int, RANGE.read_text().split())
    every = range(LOWEST, 65536)
    return [port for port in every if not first <= port <= last] or every


def _reserve(port):
    """By a name in this network namespace, until this process ends; false if another test has it."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0fairlead-test-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()
    return True


def _bindable(port):
    try:
        socket.create_server(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


def free_port():
    """A port of 127.0.0.1 that no other test gets while this process runs."""
    candidates = _candidates()
    for port in random.sample(candidates, len(candidates)):
        if _reserve(port) and _bindable(port):
            return port
    raise AssertionError(f"none of {len(candidates)} ports is free; {RANGE} is {RANGE.read_text().strip()}")
