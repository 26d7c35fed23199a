"""What the kernel counts in this network namespace."""
from pathlib import Path


def parse(text):
    """{prefix: {name: number}}: a line of names and a line of numbers for each prefix."""
    counters = {}
    lines = [line.split() for line in text.splitlines()]
    for names, numbers in zip(lines[::2], lines[1::2]):
        counters[names[0].rstrip(":")] = dict(zip(names[1:], map(int, numbers[1:])))
    return counters


def tcp_losses(names):
    """{name: count} of these counters of TcpExt, 0 for one that the kernel does not know."""
    known = parse(Path("/proc/self/net/netstat").read_text(encoding="ascii"))["TcpExt"]
    return {name: known.get(name, 0) for name in names}


def opened_connections():
    """TCP connections that were opened so far."""
    return parse(Path("/proc/self/net/snmp").read_text(encoding="ascii"))["Tcp"]["ActiveOpens"]
