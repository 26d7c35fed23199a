"""fairlead-node under load: the real plugin adds and removes pods. Devices of their sidecars, which speak the
broker's protocol by hand, use its broker. Has the same requirements as tests/cni."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "cni"))

# pylint: disable=wrong-import-position
import brokered
import plugin
from brokered import CHANNEL, CONNECT, WELCOME

LIST = {"cniVersion": "1.0.0", "name": "podnet", "plugins": [{"type": "bridge"}]}


class NodeLoad:
    def __init__(self, folder):
        """Raises SkipTest if it is not possible here."""
        plugin.PluginTest.setUpClass()
        self.run_dir, self.log = folder / "run", folder / "node.log"
        conf = folder / "net.d"
        for place in (folder, conf):
            place.mkdir()
        (conf / "10-podnet.conflist").write_text(json.dumps(LIST))
        self.port = folder / "sys/class/infiniband/mlx5_0/ports/1"
        for name in ("hw_counters", "counters"):
            (self.port / name).mkdir(parents=True)
        self.count_packets(0)
        with open(self.log, "wb") as log:
            self.agent = subprocess.Popen(
                [brokered.NODE, "run", "--conf-dir", conf, "--bin-dir", folder / "bin", "--run-dir", self.run_dir,
                 "--plugin", plugin.PLUGIN, "--listen", "127.0.0.1:0",
                 "--sysfs", folder / "sys"], stdout=log, stderr=log)
        self.pods, self.callee = [], None

    def start(self):
        plugin.wait_until(lambda: " node event=ready" in self.log.read_text(), "fairlead-node", 20)
        self.address = re.search(r"event=listening address=(\S+)", self.log.read_text()).group(1)
        for _ in range(2):
            self.pods.append(plugin.Pod())
            self.call("ADD", self.pods[-1])
        self.callee = self.device(self.pods[0])
        assert self.callee.enroll(b"callee00")[0] == WELCOME

    def close(self):
        self.agent.terminate()
        self.agent.wait()
        for pod in self.pods:
            pod.close()
        if self.callee:
            self.callee.close()

    def call(self, verb, pod):
        config = {"cniVersion": plugin.VERSION, "name": "podnet", "type": "fairlead-cni", "runDir": str(self.run_dir),
                  "prevResult": pod.previous_result(), "runtimeConfig": {plugin.ANNOTATIONS: plugin.IN}}
        subprocess.run([plugin.PLUGIN], input=json.dumps(config), text=True, check=True, capture_output=True, timeout=60,
                       env={**os.environ, "CNI_COMMAND": verb, "CNI_PATH": "/opt/cni/bin", "CNI_IFNAME": "eth0",
                            "CNI_CONTAINERID": pod.container, "CNI_NETNS": pod.path})

    def device(self, pod):
        """The broker connects to it by itself."""
        return brokered.Device(pod)

    def count_packets(self, count):
        """Counts like an RNIC."""
        for name, value in (("hw_counters/packet_seq_err", count), ("hw_counters/rp_cnp_handled", 40 * count),
                            ("hw_counters/np_ecn_marked_roce_packets", 30 * count),
                            ("counters/port_rcv_data", 50_000 * count), ("counters/port_xmit_data", 60_000 * count),
                            ("counters/port_xmit_discards", 2 * count)):
            (self.port / name).write_text(f"{value}\n")

    def step(self, count):
        """A device connects, gets a channel with another, and disconnects; every fifth time also a pod starts and
        ends."""
        self.count_packets(count)
        caller = self.device(self.pods[1])
        assert caller.enroll(b"call%04d" % (count % 10000))[0] == WELCOME
        caller.say(CONNECT, b"callee00")
        assert caller.hear()[0] == CHANNEL
        assert self.callee.hear()[0] == CHANNEL
        self.callee.drop_descriptors()
        caller.close()
        if count % 5 == 0:
            pod = plugin.Pod()
            try:
                self.call("ADD", pod)
                self.call("DEL", pod)
            finally:
                pod.close()
