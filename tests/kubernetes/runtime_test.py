#!/usr/bin/env python3
"""Two pods of a real container runtime, with the real image: runtime_test.py <build folder>

The node side of the image installs the plugin into the runtime's network, as the chart's DaemonSet does. The runtime
calls it for each pod. fairleadctl defines the sidecar, which has no mount and no capability and still finds the
node's broker. redis is in one pod and redis-benchmark in the other. The sidecars' logs and a Prometheus that scrapes
them show the transport of the connections.

podman supports neither pod annotations nor native sidecars, and passes no cgroup to plugins. So the test serves the
annotations at the node side's socket, and starts the sidecar as a container with the settings of the injection. Like
nodes that cannot send the TCP option, it uses the annotation include-inbound-ports and `smc.assume`.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import yaml

import containers
import dashboard

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import main, wait_until  # pylint: disable=wrong-import-position

BUILD = Path(sys.argv.pop(1))
CTL = BUILD / "proxy" / "ctl" / "fairleadctl"
NETWORK = "fairlead-test"
SUBNET = "10.213.77.0/24"
ADMIN_PORT = 4590
SECCOMP = containers.ROOT / "config/seccomp.json"  # the sidecars run under it, and so does fairleadctl in them
SCRAPE_SECONDS = 1
ANNOTATIONS = {"fairlead.io/inject": "enabled", "fairlead.io/include-inbound-ports": "6379", "fairlead.io/shared-memory": "enabled"}
MANIFEST = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "annotations": ANNOTATIONS},
            "spec": {"containers": [{"name": "redis", "image": containers.REDIS}]}}


class Annotations(threading.Thread):
    """Answers of the node side for runtimes that pass no annotations."""

    def __init__(self, path, annotations):
        super().__init__(daemon=True)
        self.annotations, self.asked = annotations, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(path))
        self.socket.listen()
        self.start()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                self.asked.append(json.loads(connection.recv(65536)))
                connection.send(json.dumps({"annotations": self.annotations}).encode())


class RealRuntime(unittest.TestCase):
    def setUp(self):
        if why := containers.why_not("prometheus", *containers.REDIS_PROGRAMS):
            self.skipTest(why)
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-pods-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.folder.chmod(0o755)
        self.run_dir = self.folder / "run"
        self.run_dir.mkdir()
        images = containers.image_folder(BUILD, self.folder / "images")
        self.runtime = containers.Runtime(images, self.folder)
        self.addCleanup(self.runtime.remove_all)
        self.runtime.make_redis()
        if why := self.runtime.why_no_container():
            self.skipTest(why)
        self.bridge = f"flct{os.getpid()}"[:15]
        self.addCleanup(subprocess.run, ["ip", "link", "del", self.bridge], check=False, capture_output=True)

    def make_network(self):
        list_path = self.runtime.conf_dir / "10-test.conflist"
        list_path.write_text(json.dumps({
            "cniVersion": "0.4.0", "name": NETWORK, "plugins": [
                {"type": "bridge", "bridge": self.bridge, "isGateway": True,
                 "ipam": {"type": "host-local", "dataDir": str(self.folder / "ipam"),
                          "ranges": [[{"subnet": SUBNET}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}))
        return list_path

    def start_node(self):
        """The DaemonSet's container: it installs the plugin, and relays its log."""
        self.runtime.run(
            "node", "--network", "host", "--user", "0", "--read-only", "--cap-drop", "ALL",
            "--cap-add", "DAC_OVERRIDE,SETUID,SYS_ADMIN,SYS_PTRACE", "--security-opt", "no-new-privileges",
            *(word for place in ("/run/netns", "/var/run/netns") for word in ("-v", f"/run/netns:{place}:rslave")), "-v", f"{self.folder}:{self.folder}", "-v", f"{self.runtime.conf_dir}:/etc/cni/net.d",
            "-v", f"{self.runtime.bin_dir}:/opt/cni/bin", "--entrypoint", "/usr/local/bin/fairlead-node",
            containers.FAIRLEAD, "run", "--listen", "", "--run-dir", self.run_dir, "--settings",
            json.dumps({"includeCIDRs": [SUBNET], "logLevel": "debug"}))
        wait_until(lambda: "event=ready" in self.runtime.logs("node"), "the node side", 30)

    def start_sidecar(self, name):
        """The container of the injected manifest, with the settings that podman supports."""
        done = subprocess.run([CTL, "inject", "-f", "-", "--image", containers.FAIRLEAD], input=json.dumps(MANIFEST),
                              check=True, capture_output=True, text=True, timeout=60)
        injected = yaml.safe_load(done.stdout)
        self.annotations.update(injected["metadata"]["annotations"])
        sidecar = injected["spec"]["initContainers"][0]
        security = sidecar["securityContext"]
        self.assertTrue(security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"])
        settings = {entry["name"]: entry["value"] for entry in sidecar["env"]}
        settings |= {"FAIRLEAD_SMC_ASSUME": SUBNET, "FAIRLEAD_SMC_OPTION_PROGRAM": "none"}
        words = [word for item in settings.items() for word in ("--env", "=".join(item))]
        self.runtime.run(f"{name}-proxy", "--pod", name, *words, "--read-only", "--cap-drop", "ALL",
                         "--security-opt", "no-new-privileges", "--security-opt", f"seccomp={SECCOMP}",
                         "--user", f"{security['runAsUser']}:{security['runAsGroup']}",
                         sidecar["image"], *sidecar["args"])
        self.wait_for_device(f"{name}-proxy")

    def wait_for_device(self, sidecar):
        """The node's broker has found the sidecar."""
        wait_until(lambda: '"kind": "shm"' in self.runtime.podman(
            "exec", sidecar, "/usr/local/bin/fairleadctl", "-o", "json", "devices", check=False), "the node's broker", 30)

    def start_prometheus(self, addresses):
        targets = [(f"{address}:{ADMIN_PORT}", {"pod": name}) for name, address in addresses.items()]
        prometheus = dashboard.Prometheus(self.folder, targets, SCRAPE_SECONDS)
        self.addCleanup(prometheus.close)
        return prometheus

    def by_pod(self, prometheus, expression):
        return {row["metric"]["pod"]: float(row["value"][1]) for row in prometheus.ask("query", query=expression)}

    def redis(self, *words, check=True):
        return self.runtime.podman("exec", "client-redis", *words, check=check)

    def test_redis_between_pods_is_smcr(self):
        conflist = self.make_network()
        self.start_node()
        self.assertTrue((self.runtime.bin_dir / "fairlead-cni").exists())
        self.assertEqual([entry["type"] for entry in json.loads(conflist.read_text())["plugins"]],
                         ["bridge", "fairlead-cni"])
        self.annotations = {}
        answers = Annotations(self.run_dir / "agent.sock", self.annotations)
        self.addCleanup(answers.socket.close)
        self.annotations |= ANNOTATIONS | {"fairlead.io/status": "{}"}
        addresses = {name: self.runtime.pod(name, NETWORK) for name in ("server", "client")}
        self.assertEqual(len(answers.asked), 2, answers.asked)
        for name in addresses:
            self.start_sidecar(name)
        prometheus = self.start_prometheus(addresses)
        self.runtime.run("server-redis", "--pod", "server", containers.REDIS, "redis-server", "--bind", "0.0.0.0",
                         "--protected-mode", "no", "--save", "", "--dir", "/tmp")
        self.runtime.run("client-redis", "--pod", "client", containers.REDIS, "redis-server", "--bind",
                         "127.0.0.1", "--save", "", "--dir", "/tmp")  # to stay; there is no sleep in the image
        wait_until(lambda: "PONG" in self.redis("redis-cli", "-h", addresses["server"], "PING", check=False),
                   "redis", 60)
        print(self.redis("redis-benchmark", "-h", addresses["server"], "-n", "5000", "-c", "8", "-t", "set,get", "--csv"))
        carried = 'sum by (pod) (fairlead_connections_total{transport="smcr"})'
        seen = wait_until(lambda: (rows := self.by_pod(prometheus, carried)) and len(rows) == 2 and min(rows.values()) >= 8 and rows,
                          "Prometheus to see the connections", 30)
        print("Prometheus:", seen)
        self.assertEqual(self.by_pod(prometheus, 'sum by (pod) (fairlead_connections_total{transport="tcp"})'),
                         {"server": 0, "client": 0})
        for name in addresses:
            log = self.runtime.logs(f"{name}-proxy")
            self.assertIn("event=ready", log)
            self.assertIn("event=established", log, log)
            print("".join(f"{name}: {line}\n" for line in log.splitlines() if "smc.group" in line), end="")
        self.assertIn('"event":"added"', self.runtime.logs("node"))
        print(self.runtime.podman("exec", "client-proxy", "/usr/local/bin/fairleadctl", "why"))
        self.runtime.remove_all()
        self.assertEqual(list((self.run_dir / "attachments").iterdir()), [])


if __name__ == "__main__":
    main()
