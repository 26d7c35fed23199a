"""Wired pods with fairlead-node beside them, and a device that speaks the broker's protocol by hand."""
import contextlib
import os
import re
import socket
import struct
import subprocess
import urllib.request
from pathlib import Path

import plugin
import wired
from wired import harness

NODE = Path(os.environ.get("FAIRLEAD_NODE", plugin.PLUGIN.with_name("fairlead-node")))
SIDECAR_UID = 2201
BY_BROKER = {"devices": {"shm": {"broker": "@fairlead-node", "directory": None}}}
REGISTER, WELCOME, INTRODUCE, INTRODUCED, VISITOR, REFUSED = range(1, 7)
UNKNOWN_PEER, TAKEN, LIMIT = 1, 3, 4
RECORD = struct.Struct("=4sBBBx8s5s11x")


def record(kind, peer, magic=b"FLbk", version=1):
    return RECORD.pack(magic, version, kind, 0, peer, bytes(5))


class Device:
    """A sidecar's device that says what it likes."""

    def __init__(self, pod, uid=SIDECAR_UID):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.close()
        with pod.namespace():
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            os.seteuid(uid)
            try:
                self.socket.connect("\0fairlead-node")
            finally:
                os.seteuid(0)
        self.socket.settimeout(harness.seconds(10))
        self.passed = []  # sockets that came along

    def say(self, kind, peer, **how):
        self.socket.send(record(kind, peer, **how))

    def hear(self):
        """Kind, refusal and peer; nothing when the broker has hung up."""
        try:
            data, passed, _, _ = socket.recv_fds(self.socket, 64, 4)
        except ConnectionResetError:
            return None
        self.passed += [socket.socket(fileno=fd) for fd in passed]
        if not data:
            return None
        magic, version, kind, refusal, peer, _ = RECORD.unpack(data)
        assert (magic, version) == (b"FLbk", 1)
        return kind, refusal, peer

    def enroll(self, peer):
        self.say(REGISTER, peer)
        return self.hear()

    def close(self):
        for one in [self.socket, *self.passed]:
            one.close()


class BrokerTest(wired.WiredTest):
    def setUp(self):
        super().setUp()
        self.logs = 0
        conf = self.run_dir / "net.d"
        conf.mkdir()
        self.agent = self.start_agent()

    def start_agent(self):
        self.logs += 1
        log_path = self.folder / f"node{self.logs}.log"
        with open(log_path, "wb") as log:
            agent = subprocess.Popen(
                plugin.with_rights_of_the_chart(
                    NODE, "run", "--conf-dir", self.run_dir / "net.d", "--bin-dir", self.run_dir / "bin",
                    "--run-dir", self.run_dir, "--plugin", plugin.PLUGIN, "--listen", "127.0.0.1:0"),
                stdout=log, stderr=log)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)

        def address():
            self.assertIsNone(agent.poll(), log_path.read_text())
            return " node event=ready" in log_path.read_text() and \
                re.search(r"event=listening address=(\S+)", log_path.read_text())
        self.node_address = harness.wait_until(address, "fairlead-node", 20).group(1)
        return agent

    def node(self, name, **labels):
        url = f"http://{self.node_address}/metrics"
        with urllib.request.urlopen(url, timeout=harness.seconds(10)) as answer:
            return wired.harness.Metrics(answer.read().decode()).value(name, **labels)

    def wait_node(self, wanted, name, **labels):
        harness.wait_until(lambda: self.node(name, **labels) == wanted,
                           f"{name} {labels} to be {wanted}", 20)

    def device(self, pod, **how):
        device = Device(pod, **how)
        self.addCleanup(device.close)
        return device

    def devices(self, proxy):
        return [device["name"] for device in proxy.get_json("/devices")["devices"]
                if device["state"] == "active"]

    def assert_shm(self, *proxies):
        for proxy in proxies:
            metrics = proxy.metrics()
            self.assertEqual(metrics.fallbacks(), {}, proxy.name)
            self.assertEqual(metrics.connections("tcp"), 0, proxy.name)
            self.assertGreaterEqual(metrics.connections("smcr"), 8, proxy.name)

    def ctl(self, pod, proxy, *words):
        return subprocess.run(
            pod.command(str(self.binaries / "ctl" / "fairleadctl"), "--admin", proxy.admin, *words),
            capture_output=True, text=True, check=True, timeout=harness.seconds(20)).stdout

    @contextlib.contextmanager
    def client_that_stays(self, pod, host):
        """A connection that is used until the end: each call is a round trip of the application."""
        client = subprocess.Popen(pod.command("redis-cli", "-h", host), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)

        def ask():
            client.stdin.write("PING\n")
            client.stdin.flush()
            self.assertEqual(client.stdout.readline().strip(), "PONG")
        try:
            yield ask
        finally:
            client.communicate()
