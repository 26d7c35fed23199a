"""A real cluster of one node: etcd, API server, controller manager, scheduler, kube-proxy, containerd and the kubelet.

It runs in its own mount, network and PID namespaces, with the default paths of a node. On the host it changes only the
cgroup `kubepods`. All processes of the node end with its first process.

The Kubernetes programs come from the path or from the user's cache, where scripts/kubernetes.sh builds them.
"""
import json
import os
import shutil
import subprocess
from pathlib import Path

import apiserver
from suite import wait_until

KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")
OTHERS = ("etcd", "containerd", "ctr", "runc", "nft", "conntrack", "nsenter", "setpriv", "unshare", "ip", "gcc")
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/24"
NODE = "node-1"
ADDRESS = "192.168.77.1"
API_PORT = 6443
SECONDS_MAX = 180
CGROUPS = Path("/sys/fs/cgroup")
# The kubelet sets these for the whole machine.
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")
# Bash, because the first process must reap orphans.
NODE_SETUP = f"""
set -e
mount --make-rshared /
mount -t tmpfs run /run
for part in etc opt var; do
  mkdir -p "$1/$part.upper" "$1/$part.work"
  mount -t overlay -o "lowerdir=/$part,upperdir=$1/$part.upper,workdir=$1/$part.work" "$part" "/$part"
done
mkdir -p /run/netns /etc/cni/net.d /opt/cni/bin /var/lib/kubelet /var/log/pods
cp "$2"/* /opt/cni/bin
rm -f /etc/cni/net.d/*
ip link set lo up
ip link add node0 type veth peer name outside
ip address add {ADDRESS}/24 dev node0
ip link set node0 up
ip link set outside up
ip route add default via 192.168.77.254
sysctl -q net.ipv4.ip_forward=1
touch "$1/node.ready"
sleep infinity &
wait
"""
# Not a bridge: replies between its ports would bypass the address translation of Services.
NETWORK = {"cniVersion": "0.4.0", "name": "pods", "plugins": [
    {"type": "ptp",
     "ipam": {"type": "host-local", "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
"""
KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
           "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock", "cgroupDriver": "cgroupfs",
           "failCgroupV1": False, "failSwapOn": False, "resolvConf": "",
           "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
           "authorization": {"mode": "AlwaysAllow"},
           "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"}}
PAUSE = "#include <signal.h>\n#include <unistd.h>\nint main() { signal(SIGTERM, _exit); for (;;) pause(); }\n"


def why_not():
    """The reason why no cluster can run here, or None."""
    if os.geteuid() != 0:
        return "not root"
    if missing := [name for name in KUBERNETES if not find(name)]:
        return f"no {', '.join(missing)}; make k8s-test, or scripts/kubernetes.sh, builds them"
    if missing := [name for name in OTHERS if not find(name)]:
        return f"{', '.join(missing)} not installed; scripts/bootstrap.sh k8s"
    if any(path.read_text() for path in CGROUPS.glob("**/kubepods*/**/cgroup.procs")):
        return f"there are pods of a kubelet on this machine, in {CGROUPS}"
    return ""


def find(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin") or apiserver.built_program(name)


class Cluster:
    """A cluster in a folder, which the caller removes."""

    def __init__(self, folder, plugins):
        self.folder, self.plugins = Path(folder), plugins
        self.config = self.folder / "kubeconfig"
        self.programs = {name: str(find(name)) for name in KUBERNETES + OTHERS}
        self.processes = {}
        self.sysctls = {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}
        self.node, self.enter = None, []

    def start(self):
        self.start_node()
        self.start_api_server()
        self.start_containerd()
        client = ["--kubeconfig", self.config]
        self.launch("kube-controller-manager", *client, "--leader-elect=false", "--bind-address=127.0.0.1",
                    "--service-account-private-key-file", self.folder / "account.key",
                    "--root-ca-file", self.folder / "certs" / "apiserver.crt")
        self.launch("kube-scheduler", *client, "--leader-elect=false", "--bind-address=127.0.0.1")
        kubelet = self.folder / "kubelet.json"
        kubelet.write_text(json.dumps(KUBELET))
        self.launch("kubelet", *client, "--config", kubelet, "--hostname-override", NODE, "--node-ip", ADDRESS)
        # It has no right to set the host's limits on connections from here.
        self.launch("kube-proxy", *client, "--proxy-mode=nftables", "--cluster-cidr", PODS, "--hostname-override", NODE,
                    "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
                    "--conntrack-tcp-timeout-close-wait=0s")
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        self.wait(lambda: "True" in self.kubectl("get", "node", NODE, "-o", ready, check=False), "the node to be ready")

    def start_node(self):
        self.node = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL",
             "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
             "bash", "-c", NODE_SETUP, "node", self.folder, self.plugins])
        wait_until(lambda: self.node.poll() is not None or (self.folder / "node.ready").exists(), "the node", 30)
        assert self.node.poll() is None, "the node's namespaces could not be made"
        children = Path(f"/proc/{self.node.pid}/task/{self.node.pid}/children").read_text().split()
        self.enter = [self.programs["nsenter"], "-t", children[0], "-m", "-n", "-p", "--"]

    def start_api_server(self):
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "account.key", "2048"], check=True,
                       capture_output=True)
        (self.folder / "tokens").write_text(f"{apiserver.TOKEN},admin,admin,system:masters\n")
        self.launch("etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync")
        self.launch("kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--secure-port", API_PORT,
                    "--advertise-address", ADDRESS, "--cert-dir", self.folder / "certs",
                    "--service-cluster-ip-range", SERVICES, "--authorization-mode", "RBAC",
                    "--token-auth-file", self.folder / "tokens", "--service-account-issuer", "https://fairlead.test",
                    "--service-account-key-file", self.folder / "account.key",
                    "--service-account-signing-key-file", self.folder / "account.key", "--allow-privileged",
                    "--kubelet-preferred-address-types=InternalIP", "--enable-aggregator-routing")
        self.write_config()
        self.wait(lambda: self.kubectl("get", "--raw", "/readyz", check=False) == "ok", "the API server")

    def start_containerd(self):
        path = self.folder / "containerd.toml"
        path.write_text(CONTAINERD.format(folder=self.folder))
        self.in_node("tee", "/etc/cni/net.d/10-pods.conflist", input=json.dumps(NETWORK))
        self.launch("containerd", "--config", path)
        self.wait(lambda: self.ctr("version", check=False), "containerd")

    def write_config(self):
        self.config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://{ADDRESS}:{API_PORT}",
                                                      "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": apiserver.TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}]}))

    def launch(self, name, *words):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen([*self.enter, self.programs[name], *map(str, words)], stdout=log,
                                                    stderr=log, stdin=subprocess.DEVNULL)

    def wait(self, condition, what, timeout=SECONDS_MAX):
        def holds():
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name}: " + (self.folder / f"{name}.log").read_text()[-3000:]
            return condition()

        return wait_until(holds, what, timeout)

    def in_node(self, *words, check=True, **options):
        """Output of a command in the node."""
        done = subprocess.run([*self.enter, *map(str, words)], check=False, capture_output=True, text=True,
                              timeout=SECONDS_MAX, **options)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout if done.returncode == 0 else ""

    def kubectl(self, *words, check=True, **options):
        return self.in_node("env", f"KUBECONFIG={self.config}", self.programs["kubectl"], *words, check=check,
                            **options)

    def ctr(self, *words, check=True):
        return self.in_node(self.programs["ctr"], "-n", "k8s.io", *words, check=check)

    def apply(self, *objects):
        self.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def add_image(self, archive):
        self.ctr("images", "import", archive)

    def close(self):
        if self.node:
            self.node.kill()
            self.node.wait()
        for process in self.processes.values():
            process.wait()
        for name, value in self.sysctls.items():
            Path("/proc/sys", name).write_text(value)
        # Deepest first; empty by now, or soon.
        for path in sorted(CGROUPS.glob("**/kubepods/**/"), key=lambda path: -len(path.parts)):
            wait_until(lambda path=path: not (path / "cgroup.procs").read_text(), f"{path} to be empty", 30)
            path.rmdir()
