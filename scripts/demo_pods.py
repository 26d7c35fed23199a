"""Network namespaces as pods, with a Fairlead proxy each, and the redirection of their connections."""
import os
import shutil
from pathlib import Path
from typing import NamedTuple

from demo_scene import Failure, missing

PROXY_UID = 2201  # as in a pod: connections of this user are not redirected
CAPABILITIES = "-all,+bpf,+net_admin"  # for the TCP option and the client's address
PORTS = {"outbound": 4540, "inbound": 4543}
# Inbound only for peers that speak SMC-R.
RULES = {
    "outbound": ("output", f"meta skuid {PROXY_UID} return\noifname \"eth*\" meta l4proto tcp redirect to :{PORTS['outbound']}"),
    "inbound": ("prerouting", f"iifname \"eth0\" meta l4proto tcp tcp option 254 exists redirect to :{PORTS['inbound']}")}


class Unavailable(Exception):
    """The reason why something is not available here."""


class Wire(NamedTuple):
    """Connects a pod to the pod "client"."""
    client_device: str
    client_address: str
    address: str


class PodNetwork:
    """The pod "client", and those that are wired to it."""
    wires = {"server": Wire("eth0", "198.18.44.1", "198.18.44.2")}
    directions = {"client": tuple(PORTS), "server": tuple(PORTS)}  # of the connections that the pod's proxy takes

    def __init__(self, scene, binary):
        self.scene = scene
        self.program = shutil.copy(binary, scene.directory)  # the original may be inaccessible to the proxy's user
        self.addresses = {"client": self.wires["server"].client_address,
                          **{pod: wire.address for pod, wire in self.wires.items()}}
        self.names = {pod: f"{scene.prefix}{os.getpid()}-{pod}" for pod in self.addresses}
        if absent := missing(("ip", "nft", "nsenter", "setpriv")):
            raise Unavailable(f"{absent[0]} is not installed")
        try:
            for name in self.names.values():
                scene.add_namespace(name)
            for pod in self.wires:
                self.wire(pod)
            self.filter("client", "output")  # without rules yet: checks the permission
            scene.start_broker(Path(binary).parents[1] / "cni/fairlead-node", "--netns-dir", "/run/netns")
            (scene.directory / "run").mkdir()
            os.chown(scene.directory / "run", PROXY_UID, PROXY_UID)
        except (Failure, OSError) as error:
            raise Unavailable(error) from None

    def wire(self, pod):
        wire, names = self.wires[pod], (self.names["client"], self.names[pod])
        self.scene.run(["ip", "link", "add", wire.client_device, "netns", names[0], "type", "veth",
                        "peer", "name", "eth0", "netns", names[1]])
        for name, device, address in ((names[0], wire.client_device, wire.client_address), (names[1], "eth0", wire.address)):
            self.scene.run(["ip", "-n", name, "address", "add", f"{address}/30", "dev", device])
            for each in ("lo", device):
                self.scene.run(["ip", "-n", name, "link", "set", each, "up"])

    def filter(self, pod, hook, rules=""):
        """Replaces the rules of a hook; open connections keep theirs. Linux tracks connections only while a rule needs it,
        and would take an open connection for a new one later. Therefore one rule needs it always."""
        chain = f"table inet fairlead {{\nchain {hook} {{\ntype nat hook {hook} priority -100\n"
        file = self.scene.write("rules.nft", f"{chain}}}\n}}\nflush chain inet fairlead {hook}\n"
                                f"{chain}ct state invalid return\n{rules}\n}}\n}}\n")
        self.scene.run(self.inside(pod, ["nft", "-f", file]))

    def inside(self, pod, command):
        return ["nsenter", f"--net=/run/netns/{self.names[pod]}", *command]

    def start_proxy(self, proxy):
        proxy.start(self.inside(proxy.name, [
            "setpriv", f"--reuid={PROXY_UID}", f"--regid={PROXY_UID}", "--clear-groups",
            "--inh-caps", CAPABILITIES, "--ambient-caps", CAPABILITIES,
            "--bounding-set", CAPABILITIES, "--no-new-privs", self.program]),
            {"listeners": [{"name": direction, "direction": direction, "mode": "redirect",
                            "listen": f"0.0.0.0:{PORTS[direction]}"} for direction in self.directions[proxy.name]],
             "smc": {"host_name": proxy.name}})
        status, finding = proxy.fact("option_program")
        if status != "ok":
            raise Unavailable(finding)

    def redirect(self):
        """Redirects new connections to Fairlead."""
        for pod, directions in self.directions.items():
            for direction in directions:
                self.filter(pod, *RULES[direction])

    def wire_bytes(self):
        """Bytes that the client's network device has received."""
        devices = self.scene.run(self.inside("client", ["cat", "/proc/net/dev"]))
        return next(int(line.split()[1]) for line in devices.splitlines() if "eth0:" in line)
