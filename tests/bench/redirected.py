#!/usr/bin/env python3
"""What the redirect costs: redis-benchmark between two pods in turns, redirected by programs, by nf_tables, and not at all;
to a server without a sidecar, which is left alone (direct); and with HAProxy as the sidecar of both pods, redirected by
nf_tables. Needs root, redis, haproxy, the bridge plugin and a build.

  FAIRLEAD_CNI=build/release/cni/fairlead-cni FAIRLEAD_BIN=build/release/proxy FAIRLEAD_NODE=build/release/cni/fairlead-node \\
      tests/bench/redirected.py

Environment: FAIRLEAD_TURNS, how often each kind has its turn (default 4); FAIRLEAD_KINDS, some of none, direct, nftables,
programs and haproxy; FAIRLEAD_SMC=false for the fallback to TCP.
It also times connect(2): the first to a destination, later ones, and to a closed port. The last line says how many
connections the kernel tracks in the client's pod afterwards.
"""
import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "cni"))

import plugin  # pylint: disable=wrong-import-position
import wired  # pylint: disable=wrong-import-position
from wired import harness  # pylint: disable=wrong-import-position

KINDS = os.environ.get("FAIRLEAD_KINDS", "none,direct,nftables,programs,haproxy").split(",")
# As a sidecar: a connection goes on to where it was to go.
HAPROXY = """
global
  maxconn 4000
  nbthread 1
  uid 2201
  gid 2201
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen all
  bind :4540
  bind :4543
  server original 0.0.0.0:0
"""
HAPROXY_RULES = """
add table ip sidecar
add chain ip sidecar out { type nat hook output priority -101; }
add chain ip sidecar in { type nat hook prerouting priority -101; }
add rule ip sidecar out meta skuid 2201 return
add rule ip sidecar out oifname lo return
add rule ip sidecar out ip daddr 10.0.0.0/8 meta l4proto tcp redirect to :4540
add rule ip sidecar in iifname eth0 meta l4proto tcp redirect to :4543
"""
# Ports of servers to which connect(2) is timed, each once, and one of them again and again.
CONNECT_PORTS = range(8000, 8100)
CONNECTS = {"first": CONNECT_PORTS, "later": [CONNECT_PORTS[0]] * 100, "refused": range(8100, 8200)}
LOADS = {"GET, 50 connections": ("-n", "120000", "-c", "50"), "GET, 1 connection": ("-n", "15000", "-c", "1"),
         "a connection for each GET, 8 at a time": ("-n", "6000", "-c", "8", "-k", "0")}
TURNS = int(os.environ.get("FAIRLEAD_TURNS", "4"))
SMC = {"smc": {"enabled": os.environ.get("FAIRLEAD_SMC", "true") == "true"}}


class Redirected(wired.WiredTest):
    def redirected_pod(self, kind):
        pod = wired.WiredPod()
        self.addCleanup(self.remove, pod)
        pod.inside("ip", "link", "set", "lo", "up")
        pod.result = self.call_bridge("ADD", pod)
        if kind == "haproxy":
            pod.inside("nft", HAPROXY_RULES)
        elif kind != "none":
            self.good("ADD", pod, plugin.IN, cniVersion="1.0.0", redirect="nftables" if kind == "nftables" else "programs")
        return pod

    def haproxy(self, pod):
        config = self.folder / "haproxy.cfg"
        config.write_text(HAPROXY, encoding="ascii")
        self.spawn(pod.command_in_cgroup("haproxy", "-f", str(config)))
        harness.wait_until(lambda: ":4543" in pod.inside("ss", "-Hltn"), "haproxy", 20)

    def rate(self, server, client, words):
        done = subprocess.run(client.command_in_cgroup("redis-benchmark", "-h", server.address(), "-t", "get", "--csv", *words),
                              capture_output=True, text=True, check=False, timeout=harness.seconds(300))
        self.assertEqual(done.returncode, 0, done.stdout[-500:] + done.stderr[-500:])
        return float(re.search(r'"GET","([0-9.]+)"', done.stdout).group(1))

    def connect_times(self, server, client, ports):
        """Of each connect(2), in seconds."""
        times = []
        for port in ports:
            with client.application():
                asking = socket.socket()
            with asking, contextlib.suppress(ConnectionRefusedError):
                began = time.perf_counter()
                try:
                    asking.connect((server.address(), port))
                finally:
                    times.append(time.perf_counter() - began)
        return times

    def test_connects(self):
        for kind in KINDS:
            server, client = self.connected_pods(kind)
            with server.application():
                for port in CONNECT_PORTS:
                    self.addCleanup(socket.create_server(("0.0.0.0", port), backlog=512).close)
            for which, ports in CONNECTS.items():
                times = sorted(self.connect_times(server, client, ports))
                print(f"connect(2), {which:8} {kind:10} median {statistics.median(times) * 1e6:7.0f} us, "
                      f"{times[len(times) // 10] * 1e6:.0f} to {times[len(times) * 9 // 10] * 1e6:.0f} (tenth to ninetieth percentile)")

    def connected_pods(self, kind):
        """With their sidecars."""
        server, client = self.redirected_pod(kind), self.redirected_pod(kind)
        if kind == "haproxy":
            self.haproxy(server)
            self.haproxy(client)
        elif kind != "none":
            self.sidecar(client, f"client-{kind}", SMC)
            if kind != "direct":
                self.sidecar(server, f"server-{kind}", SMC)
        return server, client

    def test_rates(self):
        pods = {kind: self.connected_pods(kind) for kind in KINDS}
        for server, _ in pods.values():
            self.redis(server)
        rates = {(load, kind): [] for load in LOADS for kind in KINDS}
        for _ in range(TURNS):
            for kind, (server, client) in pods.items():
                for load, words in LOADS.items():
                    rates[load, kind].append(self.rate(server, client, words))
        for (load, kind), values in rates.items():
            print(f"{load:40} {kind:10} median {statistics.median(values):9.0f}/s, {min(values):9.0f} to {max(values):9.0f}")
        count = "/proc/sys/net/netfilter/nf_conntrack_count"
        print("tracked:", {kind: client.inside("sh", "-c", f"cat {count} || echo none").strip() for kind, (_, client) in pods.items()})


if __name__ == "__main__":
    plugin.main()
