"""A real cluster of one node: a control plane, kube-proxy, containerd and the kubelet.

All of it runs in the namespaces of the control plane, with default paths as on any node. On the host it changes only
the cgroup `kubepods`. All processes of the node end with its first process.
"""
import json
from pathlib import Path

import control_plane
from suite import wait_until

OTHERS = ("containerd", "ctr", "runc", "nft", "conntrack", "gcc")
PODS = "10.244.0.0/24"
NODE = "node-1"
ADDRESS = "192.168.77.1"
CGROUPS = Path("/sys/fs/cgroup")
# The kubelet sets these for the whole machine.
SYSCTLS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
           "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")
NODE_SETUP = f"""
set -e
mount --make-rshared /
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
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


def why_not():
    """The missing prerequisites of a cluster; or nothing."""
    if why := control_plane.why_not(*OTHERS):
        return why
    if any(path.read_text() for path in CGROUPS.glob("**/kubepods*/**/cgroup.procs")):
        return f"there are pods of a kubelet on this machine, in {CGROUPS}"
    return ""


class Cluster(control_plane.ControlPlane):
    """Uses a folder, which the caller removes."""

    def __init__(self, folder, plugins):
        super().__init__(folder, ADDRESS, NODE_SETUP, plugins, others=OTHERS)
        self.sysctls = {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}

    def start(self):
        self.start_place()
        self.start_api_server()
        self.start_containerd()
        self.start_controllers()
        client = ["--kubeconfig", self.config]
        kubelet = self.folder / "kubelet.json"
        kubelet.write_text(json.dumps(KUBELET))
        self.launch("kubelet", *client, "--config", kubelet, "--hostname-override", NODE, "--node-ip", ADDRESS)
        # It has no right to set the host's limits on connections from here.
        self.launch("kube-proxy", *client, "--proxy-mode=nftables", "--cluster-cidr", PODS, "--hostname-override", NODE,
                    "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s",
                    "--conntrack-tcp-timeout-close-wait=0s")
        self.wait_node(NODE)

    def start_containerd(self):
        path = self.folder / "containerd.toml"
        path.write_text(CONTAINERD.format(folder=self.folder))
        self.in_node("tee", "/etc/cni/net.d/10-pods.conflist", input=json.dumps(control_plane.cni_network(PODS)))
        self.launch("containerd", "--config", path)
        self.wait(lambda: self.ctr("version", check=False), "containerd")

    def ctr(self, *words, check=True):
        return self.in_node(self.programs["ctr"], "-n", "k8s.io", *words, check=check)

    def add_image(self, archive):
        self.ctr("images", "import", archive)

    def close(self):
        super().close()
        for name, value in self.sysctls.items():
            Path("/proc/sys", name).write_text(value)
        # Deepest first; they are empty now or soon.
        for path in sorted(CGROUPS.glob("**/kubepods/**/"), key=lambda path: -len(path.parts)):
            wait_until(lambda path=path: not (path / "cgroup.procs").read_text(), f"{path} to be empty", 30)
            path.rmdir()
