"""Targets of the comparison: pairs of sidecars, each as two commands and their configuration files.

A target is made for a Place, the addresses of one pair. Its first command runs in pod A, listens
at `listen` and reaches the other at `peer`; the second runs in pod B, listens at `peer` and reaches
the application at `app`. Either may be missing.
"""

import json
import os
import shutil
from dataclasses import dataclass, field
from typing import Callable

from pods import BROKER

LONG = "1h"  # no proxy may give up an idle connection during a run


@dataclass(frozen=True)
class Place:
    listen_ip: str
    listen_port: int
    peer_ip: str
    peer_port: int
    app_ip: str
    app_port: int
    directory: str
    netns_a: str
    netns_b: str
    connections_max: int

    @property
    def listen(self):
        return f"{self.listen_ip}:{self.listen_port}"

    @property
    def peer(self):
        return f"{self.peer_ip}:{self.peer_port}"

    @property
    def app(self):
        return f"{self.app_ip}:{self.app_port}"

    def sides(self):
        """(name, listening address, destination) of both sidecars."""
        return (("a", self.listen, self.peer), ("b", self.peer, self.app))

    def placeholders(self):
        names = ("listen", "listen_ip", "listen_port", "peer", "peer_ip", "peer_port", "app",
                 "app_ip", "app_port", "netns_a", "netns_b")
        return {name: getattr(self, name) for name in names} | {"dir": self.directory}


@dataclass(frozen=True)
class Commands:
    a: str = ""
    b: str = ""
    files: dict = field(default_factory=dict)  # name below the pair's directory: text


def commands_with(form, place, files):
    """One command for both sides; its blanks are for the pair's directory and the side."""
    return Commands(form.format(place.directory, "a"), form.format(place.directory, "b"), files)


@dataclass(frozen=True)
class Target:
    name: str
    make: Callable[[Place], Commands]
    program: str = ""          # must exist, or the target is left out
    wrap: tuple = ()           # prefix of the applications' commands
    over_smc: bool = False     # the bytes must not cross the network between the pods

    def missing(self):
        """The reason why it cannot run here, or an empty string."""
        if not self.program or shutil.which(self.program):
            return ""
        return f"{self.program} is not there"


def haproxy(name, global_lines="", default_lines="", connections_max=None):
    def make(place):
        files = {}
        for side, bind, to in place.sides():
            files[side + ".cfg"] = "\n".join([
                "global", "  nbthread 1", f"  maxconn {connections_max or place.connections_max}",
                global_lines, "defaults", "  mode tcp", "  timeout connect 5s",
                f"  timeout client {LONG}", f"  timeout server {LONG}", default_lines,
                "frontend in", f"  bind {bind}", "  default_backend out",
                "backend out", f"  server next {to}", ""])
        command = "haproxy -db -f {}/{}.cfg"
        return commands_with(command, place, files)
    return Target(name, make, "haproxy")


def nginx(name, server_lines=""):
    # Without proxy_half_close a client that shuts its sending side down loses the reply.
    def make(place):
        files = {}
        for side, bind, to in place.sides():
            files[side + ".cfg"] = "\n".join([
                "daemon off;", "worker_processes 1;", f"pid {place.directory}/{side}.pid;",
                "error_log /dev/null;", "load_module modules/ngx_stream_module.so;",
                "events { worker_connections %d; }" % (2 * place.connections_max + 100),
                "stream {", "  tcp_nodelay on;", "  proxy_half_close on;",
                f"  proxy_timeout {LONG};", server_lines,
                "  server { listen %s; proxy_pass %s; }" % (bind, to), "}", ""])
        command = "nginx -c {}/{}.cfg"
        return commands_with(command, place, files)
    return Target(name, make, "nginx")


def envoy(name):
    def make(place):
        files = {}
        for side, bind, to in place.sides():
            address = {"socket_address": dict(zip(("address", "port_value"), split(bind)))}
            upstream = {"socket_address": dict(zip(("address", "port_value"), split(to)))}
            relay = {"name": "envoy.filters.network.tcp_proxy", "typed_config": {
                "@type": "type.googleapis.com/"
                         "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                "stat_prefix": "relay", "cluster": "next", "idle_timeout": "3600s"}}
            cluster = {
                "name": "next", "type": "STATIC", "connect_timeout": "5s",
                "circuit_breakers": {"thresholds": [{"max_connections": 1 << 20,
                                                     "max_pending_requests": 1 << 20}]},
                "load_assignment": {"cluster_name": "next", "endpoints": [
                    {"lb_endpoints": [{"endpoint": {"address": upstream}}]}]}}
            files[side + ".json"] = json.dumps({"static_resources": {
                "listeners": [{"name": "in", "address": address,
                               "filter_chains": [{"filters": [relay]}]}],
                "clusters": [cluster]}})
        command = "envoy -c {}/{}.json --concurrency 1 --disable-hot-restart --log-level off"
        return commands_with(command, place, files)
    return Target(name, make, "envoy")


def split(address):
    ip, port = address.rsplit(":", 1)
    return ip, int(port)


def fairlead(name, program, settings=None, over_smc=True):
    """`settings`: keys of config/proxy.yaml beside the listeners. JSON is YAML, too."""
    def make(place):
        files = {}
        directions = {"a": ("out", "outbound"), "b": ("in", "inbound")}
        for side, bind, to in place.sides():
            listener, direction = directions[side]
            config = {
                "concurrency": 1,
                "listeners": [{"name": listener, "direction": direction, "mode": "static",
                               "listen": bind, "upstream": to}],
                "smc": {"option_program": "auto"},
                "devices": {"shm": {"broker": BROKER}},
                "admin": {"listen": "", "socket": f"{place.directory}/{side}.sock"},
                "log": {"level": "warn"}}
            for key, value in (settings or {}).items():
                config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
            other = config.pop("other_devices", None)
            files[side + ".yaml"] = json.dumps(config, indent=2) + "\n"
        command = program + " --config {}/{}.yaml"
        if other:  # tests/integration/other_devices_proxy.cc
            folder = os.path.join(os.path.dirname(program), "../tests/integration")
            command = f"env OTHER_DEVICES={other} {folder}/other_devices_proxy --config {{}}/{{}}.yaml"
        return commands_with(command, place, files)
    return Target(name, make, program, over_smc=over_smc)


def from_texts(name, a, b, files=None, wrap=()):
    """A target defined by the user: commands and files with {placeholders}."""
    def make(place):
        values = place.placeholders()
        return Commands(a.format(**values), b.format(**values),
                        {path: text.format(**values) for path, text in (files or {}).items()})
    return Target(name, make, wrap=tuple(wrap))


def read_targets_file(path):
    with open(path, encoding="utf-8") as file:
        return [from_texts(t["name"], t.get("a", ""), t.get("b", ""), t.get("files"),
                           t.get("wrap", ())) for t in json.load(file)]


def built_in(proxy):
    """The default targets. `proxy` is the path of fairlead-proxy."""
    targets = [
        Target("direct", lambda place: Commands()),
        haproxy("haproxy"),
        haproxy("haproxy-128k", global_lines="  tune.bufsize 131072"),
        # Splicing takes two pipes a connection, and descriptors are few.
        haproxy("haproxy-splice", connections_max=2000,
                default_lines="  option splice-request\n  option splice-response"),
        nginx("nginx"),
        fairlead("fairlead", proxy),
        fairlead("fairlead-at-once", proxy, {"smc": {"option_program": "auto", "defer_bytes": 0}}),
        fairlead("fairlead-nospin", proxy, {"latency": {"spin": "0us"}}),
        fairlead("fairlead-tcp", proxy, {"smc": {"enabled": False}}, over_smc=False),
    ]
    if shutil.which("envoy"):
        targets.append(envoy("envoy"))
    return targets


def extra(proxy):
    """Targets that run only if they are named."""
    return [nginx("nginx-128k", "  proxy_buffer_size 128k;"),
            fairlead("fairlead-short", proxy,
                     {"smc": {"option_program": "auto", "defer_turns": 1000, "defer_time": LONG}}),
            *(fairlead(f"fairlead-{count}-workers", proxy, {"concurrency": count}) for count in (2, 4)),
            fairlead("fairlead-no-address", proxy, {"client_address": "off"})]


def proxy_path(root):
    return os.path.join(root, "build", "release", "proxy", "fairlead-proxy")
