"""Environments of the demo: network namespaces as pods, or plain loopback.

A place defines how to run a command in a pod, how its proxies are configured, the address to which a
client connects, and the address of a peer without Fairlead.
"""
import socket
from pathlib import Path

from demo_comparison import DIRECT, FAIRLEAD, HAPROXY
from demo_pods import PodNetwork, Wire

REDIS, NGINX = "redis", "nginx"


class Pods(PodNetwork):
    """Three namespaces: a client and a server with Fairlead, and a peer without it."""
    title = "three network namespaces as pods; connections are redirected to the proxies"
    wires = {**PodNetwork.wires, "stranger": Wire("eth1", "198.18.44.5", "198.18.44.6")}
    directions = {"client": ("outbound",), "server": ("inbound",)}
    ports = {REDIS: 6379, NGINX: 8080}
    haproxy_ports = {REDIS: 16379, NGINX: 18080}
    falls_back = "client"  # its proxy connects to the peer without Fairlead

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


class Loopback:
    """One network for all programs, static listeners, and smc.assume. Needs no privileges."""
    title = "plain loopback; clients dial the proxies, SMC-R is assumed instead of found out"
    falls_back = "server"  # the peer without Fairlead is a client

    def __init__(self, scene, binary):
        self.program = binary
        scene.start_broker(Path(binary).parents[1] / "cni/fairlead-node")
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
