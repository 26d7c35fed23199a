"""Calls fairlead-cni as a runtime does: by environment and standard input, with network namespaces as
pods and the test's own run folder.

Environment: FAIRLEAD_CNI, the plugin; FAIRLEAD_SLOWNESS as in tests/suite.py.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import SLOWNESS, main, seconds, wait_until  # pylint: disable=wrong-import-position,unused-import

PLUGIN = Path(os.environ.get("FAIRLEAD_CNI", Path(__file__).parents[2] / "build/dev/cni/fairlead-cni"))
CALL_SECONDS_MAX = 60
CLONE_NEWNET = 0x40000000
ANNOTATIONS = "io.kubernetes.cri.pod-annotations"
IN = {"fairlead.io/status": "{}", "fairlead.io/inject": "enabled"}  # a pod that was injected
VERSION = "1.1.0"
PINS = Path("/sys/fs/bpf/fairlead")
REDIRECT_PROGRAMS = ["fairlead_conn4", "fairlead_conn6", "fairlead_name4", "fairlead_name6", "fairlead_ops", "fairlead_peer4",
                     "fairlead_peer6"]
NO_REDIRECT = {"programs": [], "filters": [], "pinned": False, "nft": "", "blocks": []}
NODE_TEMPLATE = Path(__file__).parents[2] / "helm/fairlead/templates/node.yaml"


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True).stdout


def with_rights_of_the_chart(*command):
    """fairlead-node as the DaemonSet has it: root, but with no capability besides those that the chart adds."""
    added = re.search(r"^ *add: \[(.*)\]$", NODE_TEMPLATE.read_text(encoding="utf-8"), re.M).group(1)
    known = int(Path("/proc/self/status").read_text(encoding="ascii").split("CapBnd:")[1].split()[0], 16)
    # Of the other capabilities, a test machine may lack SYS_RESOURCE, 24.
    names = [name for name in re.findall(r"\b(?:[A-Z]+_[A-Z]+|CHOWN|MKNOD|SETUID)\b", added)
             if name != "SYS_RESOURCE" or known >> 24 & 1]
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all" + "".join(f",+{name.lower()}" for name in names),
            "--no-new-privs", *command]


def cgroup_root():
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        if line.split()[2] == "cgroup2":
            return Path(line.split()[1])
    return None


def mount_bpf_file_system():
    """As systemd does. A second mount, by a test beside this one, would hide the pins in the first."""
    with open("/run/fairlead-tests.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.ismount("/sys/fs/bpf"):
            run("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")


def enter(file):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Answer:
    def __init__(self, code, stdout, stderr, usage):
        self.code, self.stdout, self.stderr = code, stdout, stderr
        self.cpu_seconds = usage.ru_utime + usage.ru_stime

    @property
    def json(self):
        return json.loads(self.stdout)

    def events(self):
        return [json.loads(line) for line in self.stderr.splitlines()]


class Pod:
    """A network namespace with eth0 and addresses, and a cgroup."""
    count = 0

    def __init__(self, addresses=("10.88.0.5/24",), with_cgroup=True):
        Pod.count += 1
        self.name = f"flcni{os.getpid()}n{Pod.count}"
        self.container = f"c{os.getpid()}n{Pod.count}"
        self.addresses = addresses
        run("ip", "netns", "add", self.name)
        self.path = f"/run/netns/{self.name}"
        self.cgroup = None
        run("ip", "-n", self.name, "link", "add", "eth0", "type", "veth", "peer", "name", "out0")
        # Automatic addresses would appear during a test.
        for device in ("eth0", "out0"):
            run("ip", "-n", self.name, "link", "set", device, "addrgenmode", "none")
        for device in ("lo", "eth0", "out0"):
            run("ip", "-n", self.name, "link", "set", device, "up")
        for address in addresses:
            nodad = ["nodad"] if ":" in address else []
            run("ip", "-n", self.name, "address", "add", address, "dev", "eth0", *nodad)
        # The kernel adds the multicast routes a moment after it has seen the carrier.
        if Path("/proc/net/if_inet6").exists():
            wait_until(lambda: all(f"ff00::/8 dev {device}" in self.routes6() for device in ("eth0", "out0")),
                       "the multicast routes of the pod")
        root = cgroup_root()
        if with_cgroup and root is not None:
            self.cgroup = root / self.name
            self.cgroup.mkdir()

    def previous_result(self):
        return {"cniVersion": VERSION, "interfaces": [{"name": "eth0", "sandbox": self.path}],
                "ips": [{"address": address, "interface": 0} for address in self.addresses],
                "routes": [{"dst": "0.0.0.0/0"}], "dns": {}}

    @contextlib.contextmanager
    def namespace(self):
        """The calling thread is in the namespace within this block."""
        with open("/proc/thread-self/ns/net", encoding="ascii") as home, open(self.path, encoding="ascii") as there:
            enter(there)
            try:
                yield
            finally:
                enter(home)

    @contextlib.contextmanager
    def application(self):
        """Sockets that this process makes within this block are those of an application of the pod."""
        home = cgroup_root() / Path("/proc/self/cgroup").read_text(encoding="ascii").rsplit("::/", 1)[1].strip()
        with self.namespace():
            (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))
            try:
                yield
            finally:
                (home / "cgroup.procs").write_text(str(os.getpid()))

    def nft(self):
        return self.inside("nft", "-s", "list", "ruleset")

    def alias(self):
        return self.inside("cat", "/sys/class/net/lo/ifalias").strip()

    def inside(self, *command):
        return run("ip", "netns", "exec", self.name, *command)

    def snapshot(self):
        """Everything that a plugin could change in this pod."""
        return {**self.redirect(), "sysctl": self.inside("sh", "-c", "grep -rs . /proc/sys/net | sort"),
                "routes": run("ip", "-n", self.name, "route", "show", "table", "all"),
                "routes6": self.routes6(),
                "rules": run("ip", "-n", self.name, "rule"),
                "addresses": run("ip", "-n", self.name, "address"),
                "links": run("ip", "-n", self.name, "-details", "link"),
                "programs": self.programs()}

    def routes6(self):
        return run("ip", "-6", "-n", self.name, "route", "show", "table", "all")

    def programs(self):
        if self.cgroup is None or not self.cgroup.exists():
            return []
        shown = json.loads(run("bpftool", "-j", "cgroup", "show", self.cgroup).strip() or "[]")
        return sorted(program["name"] for program in shown)

    def filters(self):
        """Names of the tc programs on eth0."""
        if "eth0" not in self.inside("ls", "/sys/class/net").split():
            return []
        shown = json.loads(self.inside("tc", "-j", "filter", "show", "dev", "eth0", "ingress") or "[]")
        return sorted(one["options"]["bpf_name"].split(":")[0] for one in shown if "bpf_name" in one.get("options", {}))

    def redirect(self):
        """What redirects in this pod: names of programs, blocks that they redirect, rules of the packet filter."""
        programs = [name for name in self.programs() if name in REDIRECT_PROGRAMS]
        return {"programs": programs, "filters": self.filters(), "pinned": self.pin() is not None, "nft": self.nft(),
                "blocks": self.redirected_blocks() if programs else []}

    def pin(self):
        """The pinned link to the network namespace, or None."""
        links = json.loads(run("bpftool", "-j", "-f", "link", "show") or "[]")
        number = os.stat(self.path).st_ino
        pinned = [link["pinned"][0] for link in links if link.get("netns_ino") == number and link.get("pinned")]
        return Path(pinned[0]) if pinned else None

    def redirected_blocks(self):
        shown = json.loads(run("bpftool", "-j", "cgroup", "show", self.cgroup))
        number = next(program["id"] for program in shown if program["name"] == "fairlead_conn4")
        program = json.loads(run("bpftool", "-j", "prog", "show", "id", str(number)))
        for number in program["map_ids"]:
            if json.loads(run("bpftool", "-j", "map", "show", "id", str(number)))["name"] == "included":
                dumped = json.loads(run("bpftool", "-j", "map", "dump", "id", str(number)))
                return sorted("".join(byte[2:] for byte in entry["key"]) for entry in dumped)
        raise AssertionError("no map of blocks")

    def detach(self, name):
        """Detaches one of these programs."""
        for program in json.loads(run("bpftool", "-j", "cgroup", "show", self.cgroup)):
            if program["name"] == name:
                run("bpftool", "cgroup", "detach", self.cgroup, program["attach_type"], "id",
                    str(program["id"]))

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)
        if self.cgroup is not None and self.cgroup.exists():
            self.cgroup.rmdir()


class PluginTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root to make network namespaces")
        for program in ("ip", "tc", "nft", "bpftool"):
            if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None:
                raise unittest.SkipTest(f"{program} is not installed")
        mount_bpf_file_system()
        probe = f"flcni{os.getpid()}"
        made = subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True, text=True)
        if made.returncode != 0:
            raise unittest.SkipTest(f"no network namespaces here: {made.stderr.strip()}")
        run("ip", "netns", "del", probe)

    def setUp(self):
        self.run_dir = Path(tempfile.mkdtemp(prefix="fairlead-cni-"))
        self.addCleanup(shutil.rmtree, self.run_dir, ignore_errors=True)
        (self.run_dir / "enabled").touch()

    def spawn(self, command, **options):
        """A process that ends with the test."""
        process = subprocess.Popen(command, **options)
        for stream in (process.stdin, process.stdout):
            if stream:
                self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def pod(self, *arguments, **options):
        pod = Pod(*arguments, **options)
        self.addCleanup(pod.close)
        return pod

    def config(self, pod=None, annotations=None, **changes):
        config = {"cniVersion": VERSION, "name": "podnet", "type": "fairlead-cni",
                  "runDir": str(self.run_dir),
                  "capabilities": {ANNOTATIONS: True, "cgroupPath": True}}
        if pod is not None:
            config["prevResult"] = pod.previous_result()
            config["runtimeConfig"] = {}
            if annotations is not None:
                config["runtimeConfig"][ANNOTATIONS] = annotations
            if pod.cgroup is not None:
                config["runtimeConfig"]["cgroupPath"] = "/" + pod.cgroup.name
        config.update(changes)
        return {key: value for key, value in config.items() if value is not None}

    def environment(self, verb, pod=None, **changes):
        variables = {"CNI_COMMAND": verb, "CNI_PATH": "/opt/cni/bin"}
        if pod is not None:
            variables.update(CNI_CONTAINERID=pod.container, CNI_NETNS=pod.path, CNI_IFNAME="eth0",
                             CNI_ARGS="K8S_POD_NAME=web-0;IgnoreUnknown=1;K8S_POD_NAMESPACE=default")
        variables.update(changes)
        kept = {key: value for key, value in variables.items() if value is not None}
        # The plugin also needs variables such as the sanitizers' options.
        return {**{k: v for k, v in os.environ.items() if not k.startswith("CNI_")}, **kept}

    def start(self, environment, text):
        process = subprocess.Popen([PLUGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment)
        return process, text if isinstance(text, bytes) else text.encode()

    def raw(self, environment, text):
        """One call, with the resources that it used."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, \
                tempfile.TemporaryFile() as stderr:
            stdin.write(text if isinstance(text, bytes) else text.encode())
            stdin.seek(0)
            # Uses wait4 because only it reports the resources of this one child.
            process = subprocess.Popen([PLUGIN], stdin=stdin, stdout=stdout, stderr=stderr,
                                       env=environment)
            limit = threading.Timer(seconds(CALL_SECONDS_MAX), process.kill)
            limit.start()
            _, status, usage = os.wait4(process.pid, 0)
            limit.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
            stdout.seek(0)
            stderr.seek(0)
            answer = Answer(process.returncode, stdout.read().decode(errors="replace"),
                            stderr.read().decode(errors="replace"), usage)
        self.assertIn(answer.code, (0, 1), answer.stderr)
        return answer

    def call(self, verb, pod=None, annotations=None, env=None, **changes):
        return self.raw(self.environment(verb, pod, **(env or {})),
                        json.dumps(self.config(pod, annotations, **changes)))

    def good(self, verb, *arguments, **options):
        answer = self.call(verb, *arguments, **options)
        self.assertEqual(answer.code, 0, answer.stdout + answer.stderr)
        return answer

    def bad(self, code, words, verb, *arguments, **options):
        answer = self.call(verb, *arguments, **options)
        self.assertEqual(answer.code, 1, answer.stdout + answer.stderr)
        self.assertEqual(answer.json["code"], code, answer.stdout)
        for word in words:
            self.assertIn(word, answer.json["msg"])
        return answer

    def add(self, pod, annotations=None, **options):
        """ADD, which echoes the result of the previous plugin."""
        answer = self.good("ADD", pod, IN if annotations is None else annotations, **options)
        self.assertEqual(answer.json, pod.previous_result())
        return answer

    def assert_set_up(self, pod):
        self.assertTrue(pod.alias().startswith("smc1;"), pod.alias())
        if pod.cgroup is None:
            self.assertIn("table inet fairlead", pod.nft())
            return
        self.assertEqual(pod.programs(), sorted(["client_addr4", "client_addr6", "smc_mark", "smc_option",
                                                 *REDIRECT_PROGRAMS]))
        redirect = pod.redirect()
        self.assertEqual((redirect["filters"], redirect["pinned"], redirect["nft"]), (["fairlead_syn"], True, ""))

    def attachments(self):
        return sorted(str(path.relative_to(self.run_dir)) for path in
                      (self.run_dir / "attachments").rglob("*"))

    def state(self, pod, ifname="eth0"):
        path = self.run_dir / "attachments" / pod.container / f"{ifname}.json"
        return json.loads(path.read_text(encoding="utf-8"))
