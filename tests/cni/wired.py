"""Pods wired through the CNI protocol as by a runtime, with a real sidecar in each."""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "integration"))

import harness  # pylint: disable=wrong-import-position
import plugin  # pylint: disable=wrong-import-position

BRIDGE_DIRS = [Path("/usr/lib/cni"), Path("/opt/cni/bin")]
REQUESTS = 2000
NEEDED = ("ip", "nsenter", "setpriv", "redis-server", "redis-benchmark", "redis-cli")


class WiredPod(plugin.Pod):
    """A namespace and a cgroup; the plugins create everything else."""

    def __init__(self):  # pylint: disable=super-init-not-called
        plugin.Pod.count += 1
        self.name = f"flpod{os.getpid()}n{plugin.Pod.count}"
        self.container = self.name
        self.path = f"/run/netns/{self.name}"
        plugin.run("ip", "netns", "add", self.name)
        self.cgroup = plugin.cgroup_root() / self.name
        self.cgroup.mkdir()
        self.result = None

    def previous_result(self):
        return self.result

    def address(self, ipv6=False):
        addresses = [ip["address"].split("/")[0] for ip in self.result["ips"]]
        return next(address for address in addresses if (":" in address) == ipv6)

    def command(self, *words):
        return ["nsenter", f"--net={self.path}", *words]

    def command_in_cgroup(self, *words):
        """The process that joins the cgroup becomes the program by exec."""
        return ["sh", "-c", f'echo $$ > {self.cgroup}/cgroup.procs && exec "$@"', "sh", *self.command(*words)]


def listen_in(pod, name, uid=2201):
    """A listener at an abstract address of the pod, of this user."""
    with pod.namespace():
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.seteuid(uid)
    try:
        listener.bind("\0" + name)
        listener.listen(4)
    finally:
        os.seteuid(0)
    listener.settimeout(harness.seconds(20))
    return listener


class WiredTest(harness.ProxyTest, plugin.PluginTest):
    def setUp(self):
        harness.ProxyTest.setUp(self)
        plugin.PluginTest.setUp(self)
        for program in NEEDED:
            if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
                raise unittest.SkipTest(f"{program} is not installed")
        if plugin.cgroup_root() is None:
            raise unittest.SkipTest("no cgroup2 hierarchy is mounted")
        self.plugins = next((path for path in BRIDGE_DIRS if (path / "bridge").exists()), None)
        if self.plugins is None:
            raise unittest.SkipTest("the bridge plugin is not installed")
        self.bridge = f"flbr{os.getpid()}"[:15]
        self.addCleanup(subprocess.run, ["ip", "link", "del", self.bridge], check=False,
                        capture_output=True)
        # The sidecar's user may have no access to the source tree.
        self.binaries = Path(tempfile.mkdtemp(prefix="fairlead-bin-"))
        self.addCleanup(shutil.rmtree, self.binaries, ignore_errors=True)
        self.binaries.chmod(0o755)
        shutil.copy(harness.programs() / "fairlead-proxy", self.binaries)
        shutil.copy(harness.programs().parent / "tests/integration/other_devices_proxy", self.binaries)
        shutil.copytree(harness.programs() / "ctl", self.binaries / "ctl",
                        ignore=lambda folder, names: set(names) - {"fairleadctl"})
        before = os.environ.get("FAIRLEAD_BIN")
        os.environ["FAIRLEAD_BIN"] = str(self.binaries)
        self.addCleanup(os.environ.update, {"FAIRLEAD_BIN": before} if before else {})

    def call_bridge(self, verb, pod):
        config = {"cniVersion": plugin.VERSION if verb == "VERSION" else "1.0.0", "name": "podnet",
                  "type": "bridge", "bridge": self.bridge, "isGateway": True,
                  "ipam": {"type": "host-local", "dataDir": str(self.run_dir / "ipam"),
                           "ranges": [[{"subnet": "10.213.91.0/24"}], [{"subnet": "fd91::/64"}]],
                           "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
        environment = {**self.environment(verb, pod), "CNI_PATH": str(self.plugins)}
        done = subprocess.run([self.plugins / "bridge"], input=json.dumps(config), env=environment,
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout or "null")

    def wired_pod(self, annotations):
        pod = WiredPod()
        self.addCleanup(self.remove, pod)
        pod.inside("ip", "link", "set", "lo", "up")
        pod.result = self.call_bridge("ADD", pod)
        self.good("ADD", pod, annotations, cniVersion="1.0.0")
        return pod

    def remove(self, pod):
        self.good("DEL", pod, cniVersion="1.0.0")
        self.call_bridge("DEL", pod)
        pod.close()

    def sidecar(self, pod, name, options=None):
        """As in an injected pod: uid 2201, no capability, no way to gain one."""
        wrapper = pod.command_in_cgroup("setpriv", "--reuid=2201", "--regid=2201", "--clear-groups", "--no-new-privs",
                                        "--bounding-set=-all", "--inh-caps=-all")
        listeners = [harness.listener("outbound", "outbound", listen="[::]:4540", mode="redirect"),
                     harness.listener("inbound", "inbound", listen="[::]:4543", mode="redirect")]
        settings = harness.merge({"smc": {"option_program": "external"}}, options or {})
        proxy = self.start(name, listeners, settings, wrapper=wrapper)
        # Before its pod is removed; errors of the proxy are reported at the end of the test.
        self.addCleanup(proxy.finish)
        return proxy

    def redis(self, pod):
        self.spawn(pod.command_in_cgroup("redis-server", "--bind", "0.0.0.0", "::", "--port", "6379", "--protected-mode", "no",
                                         "--save", "", "--dir", str(self.folder)),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: self.ping(pod, "127.0.0.1"), "redis-server", 20)

    def start_application(self, pod, program, *words, wrapper=()):
        """A script that says when it is ready. In the pod's cgroup, of another user than the sidecar."""
        process = self.spawn(pod.command_in_cgroup(*wrapper, sys.executable, "-B", str(program), *words),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def ping(self, pod, host):
        done = subprocess.run(pod.command_in_cgroup("redis-cli", "-h", host, "PING"), capture_output=True,
                              text=True, check=False, timeout=60)
        return "PONG" in done.stdout

    def benchmark(self, pod, host):
        requests = str(harness.amount(REQUESTS))
        done = subprocess.run(
            pod.command_in_cgroup("redis-benchmark", "-h", host, "-n", requests, "-c", "8", "-d", "1000", "-t",
                        "set,get", "--csv"), capture_output=True, text=True, check=False,
            timeout=harness.seconds(120))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn('"GET"', done.stdout)
        return done.stdout
