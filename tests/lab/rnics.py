"""Two more RNICs on a node, for link groups of several links. Each has its own interface on the nodes' wire, in the
subnet of the nodes' addresses. So all RNICs reach each other, and one of them can lose its port without effect on the
others. They are created by the first call and stay, because a device with a link group of the kernel may not be
deleted. They have addresses only while a scenario uses them."""
import contextlib

from expect import wait_until
from node import LabError

NAMES = ["rxe1", "rxe2"]
PNET = "FABRIC"
METRIC = 100  # connections take eth0


def interface(rnic):
    return f"net{rnic[-1]}"


def address(node, rnic):
    return f"10.9.0.{rnic[-1]}{node.number}"


def make(node):
    """Once after each boot."""
    for rnic in NAMES:
        if interface(rnic) in node.run(["ls", "/sys/class/net"]):
            continue
        node.run(["/bin/sh", "-ec", f"""
            modprobe macvlan
            sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
            ip link add link eth0 name {interface(rnic)} type macvlan mode bridge
            sysctl -qw net.ipv6.conf.{interface(rnic)}.disable_ipv6=1
            rdma link add {rnic} type rxe netdev {interface(rnic)}
            chmod 0666 /dev/infiniband/uverbs*
            """])


def up(node, rnic):
    name = interface(rnic)
    node.run(["/bin/sh", "-ec", f"""
        ip address replace {address(node, rnic)}/24 dev {name} noprefixroute
        ip link set {name} up
        ip route replace 10.9.0.0/24 dev {name} src {address(node, rnic)} metric {METRIC}{rnic[-1]}
        """])


def down(node, rnic):
    """As if its cable were pulled."""
    node.run(["ip", "link", "set", interface(rnic), "down"])


@contextlib.contextmanager
def in_use(stage, names=None):
    """`names`: {node: RNICs}, else both on both. In the kernels' PNET tables as well."""
    used = {node.name: (names or {}).get(node.name, NAMES) for node in (stage.a, stage.b)}
    for node in (stage.a, stage.b):
        make(node)
        stage.kernels[node.name].tell("pnet", "add-netdev", PNET, "eth0")
        for rnic in used[node.name]:
            up(node, rnic)
            stage.kernels[node.name].tell("pnet", "add-rnic", PNET, rnic)
    try:
        yield
    finally:
        for node in (stage.a, stage.b):
            stage.kernels[node.name].tell("pnet", "remove", PNET)
            for rnic in NAMES:
                down(node, rnic)
                node.run(["ip", "address", "flush", "dev", interface(rnic)])


def options(max_links=2):
    """Options of a proxy that uses both."""
    return {"smc": {"max_links": max_links, "option_program": "external"},
            "devices": {"shm": {"enabled": False}, "verbs": {"names": NAMES}},
            "pnet": {"id": PNET}}


class ProxySide:
    """One end of link groups, as the Fairlead proxy reports it."""

    def __init__(self, proxy):
        self.proxy, self.node, self.name = proxy, proxy.node, proxy.name

    def groups(self):
        """[type, [[RNIC, GID of the peer] of each active link]] of each."""
        return [[group["type"], sorted([link["rnic"], link["peer_gid"]] for link in group["links"]
                                       if link["state"] == "active")]
                for group in self.proxy.get_json("/linkgroups")["link_groups"]]


class KernelSide:
    """The same by the kernel's account."""

    TYPES = ["none", "single", "symmetric", "asymmetric_peer", "asymmetric_local"]
    ACTIVE = 3  # SMC_LNK_ACTIVE

    def __init__(self, kernel, node):
        self.kernel, self.node, self.name = kernel, node, f"the kernel on {node.name}"

    def groups(self):
        return [[self.TYPES[group["type"]],
                 sorted([link["device"], link["peer_gid"]] for link in group["links"]
                        if link["state"] == self.ACTIVE)]
                for group in self.kernel.show()["groups"]
                if any(link["device"] in NAMES for link in group["links"])]


def wait_links(side, kind, timeout=40):
    """Waits until there is one group, of that kind; returns its links."""
    count = 1 if kind == "single" else 2

    def there():
        found = side.groups()
        return len(found) == 1 and found[0][0] == kind and len(found[0][1]) == count and found[0][1]
    try:
        return wait_until(there, f"{side.name} to have one {kind} group", timeout)
    except LabError as error:
        raise LabError(f"{error}; it has {side.groups()}") from None
