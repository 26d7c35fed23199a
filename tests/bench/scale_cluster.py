"""Proxies in two pods, their link groups, and connections that are held through them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

import targets as target_list
from pods import CONNECTIONS_MAX, HERE, SUBNET, Pods, build_loadgen, redis_server
from runner import installed

ROOT = os.path.dirname(os.path.dirname(HERE))
READY_SECONDS = 10.0
POLL_SECONDS = 0.05
HOLD_SECONDS = 900  # at most; a signal ends it
# The defaults are for some 1,600 connections over SMC-R; beyond them new ones are TCP.
SETTINGS = {"limits": {"connections": 20000}, "memory": {"limit": "8GiB"}}
# What grows is SMC-R, which a connection has to earn by default.
AT_ONCE = {**SETTINGS, "smc": {"defer_bytes": 0}}
# Hundreds of proxies in one cgroup, which takes 64 option programs. In pods each has its own.
CROWDED = {**SETTINGS, "smc": {"defer_bytes": 0, "option_program": "none", "assume": [SUBNET + ".0/24"]}}


@dataclass
class Proxies:
    """One inbound proxy in pod B, and the proxies in pod A that connect to it."""
    inbound: subprocess.Popen
    inbound_admin: str
    outbound: list = field(default_factory=list)
    ports: list = field(default_factory=list)  # where each of `outbound` listens

    def all(self):
        return [self.inbound, *self.outbound]


def add_arguments(parser):
    parser.add_argument("--proxy", default=target_list.proxy_path(ROOT), help="path of fairlead-proxy")
    parser.add_argument("--ctl", default=os.path.join(ROOT, "build", "release", "proxy", "ctl", "fairleadctl"),
                        help="path of fairleadctl")
    parser.add_argument("--keep", action="store_true", help="keep the scratch folder with configurations and logs")


@contextlib.contextmanager
def running(options, *programs):
    """A Cluster. Ends the program if that cannot be, or something in it goes wrong."""
    if os.geteuid() != 0:
        sys.exit(f"{os.path.basename(sys.argv[0])} needs root: it makes network namespaces")
    if missing := installed("ip", "taskset", "sysctl", "cc", "redis-server", *programs, options.proxy, options.ctl):
        sys.exit(f"missing: {', '.join(missing)}")
    cluster = Cluster(options)
    try:
        cluster.open()
        yield cluster
    except RuntimeError as error:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {error}")
    finally:
        cluster.close()


class Cluster:
    def __init__(self, options):
        self.options, self.settings = options, AT_ONCE
        self.pods = Pods("split" if (os.cpu_count() or 1) > 1 else "free", options.keep)
        self.loadgen = os.path.join(self.pods.scratch, "loadgen")
        self.app_port, self.redis_port = self.pods.port(), self.pods.port()

    def open(self):
        self.pods.open(["cubic", "reno"])
        build_loadgen(self.loadgen)
        self.pods.start("B", [self.loadgen, "server", "0.0.0.0", str(self.app_port)])
        self.pods.start("B", redis_server(self.redis_port))

    def close(self):
        self.pods.close()

    # -- the proxies ------------------------------------------------------------------------------

    def start_proxies(self, name, to_redis=False):
        """A new pair for each part, so that remains of one part do not affect the next."""
        directory = self.pods.directory(name)
        peer_port = self.pods.port()
        proxies = Proxies(self.start_side("b", directory, peer_port, 0, to_redis),
                          f"{directory}/b.sock")
        self.add_outbound(proxies, directory, peer_port, to_redis)
        return proxies

    def add_outbound(self, proxies, directory, peer_port, to_redis=False):
        port = self.pods.port()
        proxies.outbound.append(self.start_side("a", directory, peer_port, port))
        proxies.ports.append(port)
        self.wait_until_ready(port, f"{directory}/a.sock", to_redis)

    def start_side(self, side, directory, peer_port, listen_port, to_redis=False):
        place = target_list.Place("127.0.0.1", listen_port, self.pods.ips["B"], peer_port,
                                  "127.0.0.1",
                                  self.redis_port if to_redis else self.app_port, directory,
                                  self.pods.namespace("A"), self.pods.namespace("B"),
                                  CONNECTIONS_MAX)
        commands = target_list.fairlead("fairlead", self.options.proxy, self.settings).make(place)
        path = os.path.join(directory, side + ".yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(commands.files[side + ".yaml"])
        command = commands.a if side == "a" else commands.b
        return self.pods.start(side.upper(), ["sh", "-c", "exec " + command],
                               os.path.join(directory, side + ".log"))

    def wait_until_ready(self, port, admin, to_redis):
        """Waits until a connection went through the new proxy; over SMC-R, if that is not to be earned."""
        at_once = "smc" in self.settings
        deadline = time.monotonic() + READY_SECONDS
        while True:
            if to_redis:
                output, complaint = self.redis(port, 1, 10)
            else:
                # Two messages: more would touch the pages whose growth is measured.
                output, complaint = self.load(port, "idle", 1, 0.01)
            if output and (not at_once or self.groups(admin)):
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"no {'SMC-R' if at_once else 'connection'} through the proxies: {complaint}")
            time.sleep(POLL_SECONDS)
        # The next connection has the same ring then.
        while any(group["connections"] for group in self.groups(admin)):
            if time.monotonic() > deadline:
                raise RuntimeError("a connection does not leave its link group")
            time.sleep(POLL_SECONDS)

    def groups(self, admin):
        """The link groups of a proxy, from fairleadctl."""
        return self.ctl(admin, "linkgroups").get("link_groups", [])

    def ctl(self, admin, *words):
        """Output of fairleadctl; empty while there are no data or no proxy."""
        done = subprocess.run([self.options.ctl, "--admin", "unix:" + admin, "-o", "json", *words],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode in (0, 1) and done.stdout else {}

    def measure(self, what, *load, **how):
        """The load generator's report of a load."""
        output, complaint = self.load(*load, **how)
        if output is None:
            raise RuntimeError(f"{what}: {complaint}")
        return json.loads(output.splitlines()[0])

    def load(self, port, mode, size, seconds, last=None, host="127.0.0.1"):
        words = [self.loadgen, mode, host, str(port), str(size), str(seconds)]
        return self.pods.finish("A", words + ([] if last is None else [str(last)]),
                                seconds * 4 + 60)

    def redis(self, port, clients, requests, host="127.0.0.1"):
        return self.pods.finish("A", ["redis-benchmark", "-h", host, "-p", str(port), "-c",
                                      str(clients), "-n", str(requests), "-t", "get", "--csv"],
                                120)

    # -- holding connections ----------------------------------------------------------------------

    def hold(self, port, count):
        """(process that holds `count` connections, its report of their set-up)."""
        client = self.pods.start("A", [self.loadgen, "idle", "127.0.0.1", str(port), str(count),
                                       str(HOLD_SECONDS)], stdout=subprocess.PIPE)
        opened = json.loads(client.stdout.readline() or "{}")
        if opened.get("open") != count:
            raise RuntimeError(f"of {count} connections {opened.get('open', 0)} were opened")
        return client, opened

    def release(self, clients):
        """Ends the process; returns the number of connections that still echoed."""
        alive = 0
        for client in clients:
            # nsenter and taskset became the load generator by exec, so the signal reaches it.
            client.send_signal(signal.SIGUSR1)
            alive += json.loads(client.stdout.readline() or "{}").get("alive", 0)
            self.pods.stop(client)
        return alive

    def stop(self, proxies):
        for process in proxies.all():
            self.pods.stop(process)
