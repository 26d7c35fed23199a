"""Environments of the demo: network namespaces as pods, or plain loopback.

A place defines how to run a command in a pod, how its proxies are configured, the address to which a
client connects, and the address of a peer without Fairlead.
"""
import os
import shutil
import socket

from demo_scene import ENVIRONMENT, Failure

PROXY_UID = 2201  # as in a pod: connections of this user are not redirected
CAPABILITIES = "-all,+bpf,+net_admin"  # for the TCP option
REDIS, NGINX = "redis", "nginx"
DIRECT, HAPROXY, FAIRLEAD = "direct", "HAProxy", "Fairlead"  # ways from a client to a server


class Unavailable(Exception):
    """The reason why this place is not available here."""


class Pods:
    """Three namespaces: a client and a server with Fairlead, and a peer without it."""
    title = "three network namespaces as pods; connections are redirected to the proxies"
    addresses = {"client": "198.18.44.1", "server": "198.18.44.2", "stranger": "198.18.44.6"}
    ports = {REDIS: 6379, NGINX: 8080}
    haproxy_ports = {REDIS: 16379, NGINX: 18080}
    falls_back = "client"  # its proxy connects to the peer without Fairlead

    def __init__(self, scene, binary):
        self.scene = scene
        self.program = shutil.copy(binary, scene.directory)  # the original may be inaccessible to the proxy's user
        self.names = {pod: f"fairlead-demo-{os.getpid()}-{pod}" for pod in self.addresses}
        for tool in ("ip", "nft", "nsenter", "setpriv"):
            if not shutil.which(tool, path=ENVIRONMENT["PATH"]):
                raise Unavailable(f"{tool} is not installed")
        try:
            for name in self.names.values():
                scene.add_namespace(name)
            self.wire("server", "eth0", "198.18.44.1/30", "198.18.44.2/30")
            self.wire("stranger", "eth1", "198.18.44.5/30", "198.18.44.6/30")
            self.filter("client", "output")  # without rules yet: checks the permission
            (scene.directory / "run").mkdir()
            os.chown(scene.directory / "run", PROXY_UID, PROXY_UID)
        except (Failure, OSError) as error:
            raise Unavailable(error) from None

    def wire(self, pod, client_device, *addresses):
        names = self.names["client"], self.names[pod]
        self.scene.run(["ip", "link", "add", client_device, "netns", names[0], "type", "veth",
                        "peer", "name", "eth0", "netns", names[1]])
        for name, device, address in zip(names, (client_device, "eth0"), addresses):
            self.scene.run(["ip", "-n", name, "address", "add", address, "dev", device])
            for each in ("lo", device):
                self.scene.run(["ip", "-n", name, "link", "set", each, "up"])

    def filter(self, pod, hook, rules=""):
        text = f"chain {hook} {{\ntype nat hook {hook} priority -100\n{rules}\n}}"
        file = self.scene.write("rules.nft", f"table inet fairlead {{\n{text}\n}}\n")
        self.scene.run(self.inside(pod, ["nft", "-f", file]))

    def inside(self, pod, command):
        return ["nsenter", f"--net=/run/netns/{self.names[pod]}", *command]

    def start_proxy(self, proxy):
        direction, port = {"client": ("outbound", 4540), "server": ("inbound", 4543)}[proxy.name]
        proxy.start(self.inside(proxy.name, [
            "setpriv", f"--reuid={PROXY_UID}", f"--regid={PROXY_UID}", "--clear-groups",
            "--inh-caps", CAPABILITIES, "--ambient-caps", CAPABILITIES,
            "--bounding-set", CAPABILITIES, "--no-new-privs", self.program]),
            {"listeners": [{"name": direction, "direction": direction, "mode": "redirect",
                            "listen": f"0.0.0.0:{port}"}], "smc": {"host_name": proxy.name}})
        status, finding = proxy.fact("option_program")
        if status != "ok":
            raise Unavailable(finding)

    def redirect(self):
        """Redirects new connections to Fairlead; inbound only for peers that speak SMC-R."""
        self.filter("client", "output", f"meta skuid {PROXY_UID} return\n"
                    'oifname "eth*" meta l4proto tcp redirect to :4540')
        self.filter("server", "prerouting", 'iifname "eth0" meta l4proto tcp '
                    "tcp option 254 exists redirect to :4543")

    def listen(self, pod, program):
        return self.addresses[pod], self.ports[program]

    def dial(self, program, way):
        """The address, which is the same with Fairlead and without."""
        return ("127.0.0.1", self.haproxy_ports[program]) if way == HAPROXY else self.listen("server", program)

    def haproxy_hops(self, program):
        """Where HAProxy listens in each pod, and where it connects to."""
        inbound = (self.addresses["server"], self.haproxy_ports[program])
        return {"client": (self.dial(program, HAPROXY), inbound),
                "server": (inbound, self.listen("server", program))}

    def stranger(self):
        return self.listen("stranger", REDIS)

    def wire_bytes(self):
        """Bytes that the client's network device has received."""
        devices = self.scene.run(self.inside("client", ["cat", "/proc/net/dev"]))
        return next(int(line.split()[1]) for line in devices.splitlines() if "eth0:" in line)


class Loopback:
    """One network for all programs, static listeners, and smc.assume. Needs no privileges."""
    title = "plain loopback; clients dial the proxies, SMC-R is assumed instead of found out"
    falls_back = "server"  # the peer without Fairlead is a client

    def __init__(self, scene, binary):
        self.program = binary
        (scene.directory / "run").mkdir()
        sockets = {(side, program): socket.create_server(("127.0.0.1", 0))
                   for side in ("client", "server", "program", "haproxy-client", "haproxy-server")
                   for program in (REDIS, NGINX)}
        self.places = {name: each.getsockname() for name, each in sockets.items()}
        for each in sockets.values():
            each.close()

    def inside(self, pod, command):
        del pod
        return list(command)

    def start_proxy(self, proxy):
        direction, to = {"client": ("outbound", "server"),
                         "server": ("inbound", "program")}[proxy.name]
        proxy.start([self.program], {
            "listeners": [{"name": program, "direction": direction, "mode": "static",
                           "listen": "%s:%d" % self.places[proxy.name, program],
                           "upstream": "%s:%d" % self.places[to, program]}
                          for program in (REDIS, NGINX)],
            "smc": {"host_name": proxy.name, "option_program": "none",
                    "assume": ["127.0.0.1/32"]}})

    def redirect(self):
        """Makes clients connect to the proxy instead."""

    def listen(self, pod, program):
        del pod
        return self.places["program", program]

    def dial(self, program, way):
        return self.places[{DIRECT: "program", HAPROXY: "haproxy-client", FAIRLEAD: "client"}[way], program]

    def haproxy_hops(self, program):
        inbound = self.places["haproxy-server", program]
        return {"client": (self.dial(program, HAPROXY), inbound), "server": (inbound, self.listen("server", program))}

    def stranger(self):
        return self.places["server", REDIS]

    def wire_bytes(self):
        return 0
