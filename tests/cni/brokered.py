"""Wired pods with fairlead-node, and a device that implements the broker's protocol in the test."""
import contextlib
import errno
import mmap
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
BY_BROKER = {"devices": {"shm": {"broker": "@fairlead-proxy"}}}

# Records of the broker and requests of a device: docs/broker.md.
REQUEST_RING, WELCOME, REFUSED, CHANNEL, BLANK, GRANTED, ROOM = range(1, 8)
REGISTER, CONNECT, TAKE, GRANT, FREE = range(1, 6)
UNKNOWN_PEER, BUSY, TAKEN, LIMIT, FAILED, VERSION = range(1, 7)
RECORD = struct.Struct("=4sBBBB8s5sBxxQQI20x")
REQUEST = struct.Struct("=BBxxI8sQQ")
SLOTS = 1024
SLOTS_AT = 4096
RING_BYTES = SLOTS_AT + SLOTS * REQUEST.size
CHANNEL_BYTES, LAYOUT = 164480, 2


class Record:
    """One record of the broker, with its descriptors."""

    def __init__(self, data, descriptors):
        (magic, version, self.kind, self.refusal, self.side, self.peer, self.fabric, self.layout,
         self.instance, self.number, self.pod) = RECORD.unpack(data)
        assert (magic, version) == (b"FLbk", 2), data
        self.descriptors = descriptors

    def brief(self):
        return self.kind, self.refusal, self.peer


class Device:
    """A sidecar's device that can send arbitrary messages. It listens from the start; the broker connects to it."""

    def __init__(self, pod, uid=SIDECAR_UID):
        self.link, self.ring, self.tail, self.instance, self.last = None, None, 0, None, None
        self.descriptors = []  # received, and not yet fetched by a test
        self.blanks = []
        with pod.namespace():
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            os.seteuid(uid)
            try:
                for index in range(64):
                    try:
                        self.listener.bind(f"\0fairlead-proxy-{index}")
                    except OSError as error:
                        if error.errno != errno.EADDRINUSE:
                            raise
                    else:
                        break
                self.listener.listen(4)
            finally:
                os.seteuid(0)
        self.listener.settimeout(harness.seconds(10))

    def accept(self):
        """The broker's connection, with the request ring."""
        self.link = self.listener.accept()[0]
        self.link.settimeout(harness.seconds(10))
        first = self.hear_any()
        assert first is not None and first.kind == REQUEST_RING
        self.instance, self.tail = first.instance, 0
        descriptor = first.descriptors[0]
        self.ring = mmap.mmap(descriptor, RING_BYTES)
        os.close(descriptor)
        self.descriptors.remove(descriptor)
        return self

    def wake(self):
        self.link.shutdown(socket.SHUT_WR)

    def put(self, data):
        """A slot as it stands there."""
        at = SLOTS_AT + self.tail % SLOTS * REQUEST.size
        self.ring[at:at + REQUEST.size] = data
        self.tail += 1
        self.ring[0:8] = struct.pack("=Q", self.tail)

    def say(self, kind, peer=bytes(8), number=0, layout=0, channel_bytes=0, instance=None):
        if instance is None:
            instance = self.instance if number else 0
        self.put(REQUEST.pack(kind, layout, channel_bytes, peer, instance, number))
        self.wake()

    def hear_any(self):
        """The next record; None if the broker has closed the connection."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self.link, 128, 8)
        except ConnectionResetError:
            return None
        if not data:
            return None
        record = Record(data, descriptors)
        self.descriptors += descriptors
        return record

    def hear(self):
        """Kind, refusal and peer of the next record that is no blank; blanks are kept."""
        while True:
            record = self.hear_any()
            if record is None:
                return None
            if record.kind != BLANK:
                self.last = record
                return record.brief()
            self.blanks.append(record)

    def wait_blank(self):
        """A blank of the stock."""
        while not self.blanks:
            record = self.hear_any()
            assert record is not None and record.kind == BLANK, record and record.brief()
            self.blanks.append(record)
        return self.blanks.pop(0)

    def enroll(self, peer, layout=LAYOUT, channel_bytes=CHANNEL_BYTES):
        if self.link is None:
            self.accept()
        self.say(REGISTER, peer, layout=layout, channel_bytes=channel_bytes)
        return self.hear()

    def close(self):
        self.listener.close()
        if self.link is not None:
            self.link.close()
        self.drop_descriptors()

    def drop_descriptors(self):
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


class BrokerTest(wired.WiredTest):
    def setUp(self):
        super().setUp()
        self.logs = 0
        conf = self.run_dir / "net.d"
        conf.mkdir()
        self.agent = self.start_agent()

    def start_agent(self, *wrapper, options=()):
        self.logs += 1
        log_path = self.folder / f"node{self.logs}.log"
        with open(log_path, "wb") as log:
            agent = subprocess.Popen(
                list(wrapper) + plugin.with_rights_of_the_chart(
                    NODE, "run", "--conf-dir", self.run_dir / "net.d", "--bin-dir", self.run_dir / "bin",
                    "--run-dir", self.run_dir, "--plugin", plugin.PLUGIN, "--listen", "127.0.0.1:0", *options),
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
            pod.command(str(self.binaries / "ctl" / "fairleadctl"), "--admin", proxy.socket, *words),
            capture_output=True, text=True, check=True, timeout=harness.seconds(20)).stdout

    @contextlib.contextmanager
    def client_that_stays(self, pod, host):
        """A connection that stays open: each call is a round trip of the application. After a reset redis-cli reports the
        error, and the next call connects again."""
        client = subprocess.Popen(pod.command_in_cgroup("redis-cli", "-h", host), stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def ask():
            client.stdin.write("PING\n")
            client.stdin.flush()
            self.assertEqual(client.stdout.readline().strip(), "PONG")
        try:
            yield ask
        finally:
            client.communicate()
