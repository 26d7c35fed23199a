"""Two pods on one host: network namespaces joined by veth pairs and a bridge in a third.

close() removes all created namespaces, processes and the scratch folder.
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile

import processes

HERE = os.path.dirname(os.path.abspath(__file__))
SUBNET = "10.213.77"
FIRST_PORT = 15000
NODE = os.environ.get("FAIRLEAD_NODE", os.path.join(HERE, "../../build/release/cni/fairlead-node"))
BROKER = f"@fairlead-bench-{os.getpid()}"  # devices.shm.broker of all proxies
RESERVED_PORTS = "14000-16999"  # kept from connect(2), which would take them as source ports
DESCRIPTORS = min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
CONNECTIONS_MAX = (DESCRIPTORS - 100) // 2  # a proxied connection takes two


def run(*command, check=True):
    return subprocess.run(command, check=check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True).stdout


def redis_server(port):
    return ["redis-server", "--bind", "0.0.0.0", "--port", str(port), "--save", "", "--appendonly", "no",
            "--protected-mode", "no"]


def build_loadgen(program):
    sources = [os.path.join(HERE, name) for name in ("loadgen.c", "loadgen_server.c")]
    run("cc", "-O2", "-o", program, *sources, "-lpthread")


def raise_descriptor_limit():
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


class Pods:
    def __init__(self, pin, keep_scratch):
        prefix = f"flb{os.getpid()}"
        self.names = {pod: prefix + pod for pod in "ABN"}  # N has the bridge
        self.ips = {"A": SUBNET + ".1", "B": SUBNET + ".2"}
        self.cpus = {"free": {}, "one": {"A": "0", "B": "0"}, "split": {"A": "0", "B": "1"}}[pin]
        self.keep_scratch = keep_scratch
        self.started = []
        self.spinners = []
        self.next_port = FIRST_PORT
        self.scratch = tempfile.mkdtemp(prefix="fairlead-bench-")
        os.chmod(self.scratch, 0o755)  # nginx's workers have the user nobody

    def open(self, congestion_controls):
        """Creates the network; returns the first congestion control that the pods may use."""
        for name in self.names.values():
            run("ip", "netns", "add", name)
        middle = self.names["N"]
        run("ip", "-n", middle, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", middle, "link", "set", "br0", "up")
        for pod in self.ips:
            self._join(pod, middle)
        self.started.append(subprocess.Popen(
            [NODE, "broker", "--run-dir", self.directory("broker"), "--socket-name", BROKER,
             "--netns-dir", "/run/netns"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        for wanted in congestion_controls:
            for pod in self.ips:
                self._set(pod, "tcp_congestion_control", wanted, check=False)
            used = self.inside("A", "sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
            # A namespace may only use values of the host's list.
            if used == wanted:
                break
        return used

    def _join(self, pod, middle):
        name = self.names[pod]
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth",
            "peer", "name", "pod" + pod, "netns", middle)
        run("ip", "-n", middle, "link", "set", "pod" + pod, "master", "br0", "up")
        run("ip", "-n", name, "addr", "add", self.ips[pod] + "/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", name, "link", "set", device, "up")
        self._set(pod, "ip_local_port_range", "1024 65000")
        self._set(pod, "tcp_tw_reuse", "1")
        self._set(pod, "ip_local_reserved_ports", RESERVED_PORTS)

    def _set(self, pod, key, value, check=True):
        self.inside(pod, "sysctl", "-qw", f"net.ipv4.{key}={value}", check=check)

    def inside(self, pod, *command, check=True):
        return run("ip", "netns", "exec", self.names[pod], *command, check=check)

    def namespace(self, pod):
        return "/run/netns/" + self.names[pod]

    def command(self, pod, command):
        """`command`, in the pod and on its CPU."""
        pinned = ["taskset", "-c", self.cpus[pod]] if pod in self.cpus else []
        # Not `ip netns exec`: it mounts another /sys, which hides the cgroup hierarchy to which the
        # proxy attaches its option program.
        return ["nsenter", "--net=" + self.namespace(pod)] + pinned + list(command)

    def start(self, pod, command, log=os.devnull, stdout=None):
        """Starts a process; its output goes to the file `log`, stdout only if not redirected by the caller."""
        with open(log, "a", encoding="utf-8") as file:
            process = subprocess.Popen(
                self.command(pod, command), stdin=subprocess.DEVNULL, text=True, stderr=file,
                stdout=file if stdout is None else stdout, preexec_fn=raise_descriptor_limit)
        self.started.append(process)
        return process

    def finish(self, pod, command, timeout):
        """Runs a command to its end: (stdout or None when it failed, the end of its stderr)."""
        log = os.path.join(self.scratch, "client.log")
        with open(log, "w", encoding="utf-8"):
            pass
        process = self.start(pod, command, log, subprocess.PIPE)
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            return None, f"took longer than {timeout:.0f} s"
        finally:
            self.stop(process)
        with open(log, encoding="utf-8", errors="replace") as file:
            complaint = file.read().strip()[-300:]
        if process.returncode != 0:
            return None, complaint or f"ended with status {process.returncode}"
        return output, complaint

    def port(self):
        self.next_port += 1
        return self.next_port

    def directory(self, name):
        path = os.path.join(self.scratch, name)
        os.makedirs(path)
        os.chmod(path, 0o777)
        return path

    def keep_cpus_awake(self):
        """An idle-class loop on every CPU, so that none halts, like idle=poll on a host."""
        for cpu in sorted(os.sched_getaffinity(0)):
            process = subprocess.Popen(["taskset", "-c", str(cpu), "chrt", "-i", "0",
                                        "sh", "-c", "while :; do :; done"])
            self.started.append(process)
            self.spinners.append(process)

    def let_cpus_sleep(self):
        for process in self.spinners:
            self.stop(process)
        self.spinners = []

    def stop(self, process):
        """Stops a process and its children, first with SIGTERM."""
        if process in self.started:
            self.started.remove(process)
        tree = processes.tree(process.pid) if process.poll() is None else []
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for pid in tree:
                try:
                    os.kill(pid, sign)
                except ProcessLookupError:
                    pass
            try:
                process.wait(3)
                return
            except subprocess.TimeoutExpired:
                continue

    def close(self):
        for process in list(self.started):
            self.stop(process)
        for name in self.names.values():
            run("ip", "netns", "del", name, check=False)
        if not self.keep_scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
