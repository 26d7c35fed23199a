"""A guest of the lab as a node of the cluster: containerd, the kubelet and kube-proxy run in it."""
import json
import subprocess

import cluster
import control_plane
import go_programs
from expect import wait_until
from node import Node, ROOT

PODS = "10.244.0.0/16,fd00:244::/48"
CONTAINERD = ("containerd", "containerd-shim-runc-v2", "ctr")
DISK_BYTES = 6 << 30  # sparse
SECONDS_TO_SET_UP = 120
# systemd's default, which containers without another limit have.
MEMLOCK_BYTES = 8 << 20
# An emulated processor may stop for seconds, and the runtime disconnects a plugin that does not answer in time.
PLUGIN_SECONDS = 30
CONTAINERD_SETTINGS = f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/opt/cni/bin"]
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.nri.v1.nri"]
plugin_registration_timeout = "{PLUGIN_SECONDS}s"
plugin_request_timeout = "{PLUGIN_SECONDS}s"
"""
SYSTEMD_CGROUPS = """[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
"""
KUBELET = {key: value for key, value in cluster.KUBELET.items() if key != "failCgroupV1"}


def find_containerd():
    """{name: path} of the programs that scripts/containerd.sh has built; {} without them. The host's may be older."""
    found = {name: go_programs.find_built(name, "containerd-*") for name in CONTAINERD}
    return found if all(found.values()) else {}


def find_dra_driver():
    """The path of the driver that scripts/dra_driver.sh has built, or None."""
    return go_programs.DRA_DRIVER.find("dra-driver")


class Machine(Node):
    NAMES = ("node-1", "node-2")
    MEMORY_MIB = 2048

    def __init__(self, number, folder, the_kernel, initramfs, place):
        # Both cgroup drivers of the kubelet, one a node.
        self.init = "systemd" if number == 2 else "agent"
        self.place = place  # the control plane, in whose network namespace the guest's wire ends
        self.programs = {**place.programs, **find_containerd(), "dra-driver": find_dra_driver()}
        self.services = {}
        self.disk = folder / f"{self.NAMES[number - 1]}.disk"
        with open(self.disk, "wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.disk], check=True)
        super().__init__(number, folder, the_kernel, initramfs, f"tap{number}", mtu=1500)

    def command(self, the_kernel, initramfs):
        network = f"--net=/proc/{self.place.first_process()}/ns/net"
        return ["nice", "-n", "5", "nsenter", network, "--", *super().command(the_kernel, initramfs),
                "-netdev", f"tap,id=fabric,ifname=fabric{self.number},script=no,downscript=no",
                "-device", f"virtio-net-pci,netdev=fabric,mac=52:54:00:00:01:{self.number:02x},romfile=",
                "-drive", f"file={self.disk},if=virtio,format=raw,cache=unsafe"]

    def wire(self):
        return ["-netdev", f"tap,id=wire,ifname={self.link},script=no,downscript=no"]

    def become_node(self, rnic=True):
        """After a boot."""
        self.connect()
        here = ROOT / "tests/two_nodes/guest_node.sh"
        self.run([here, self.number, 3 - self.number], SECONDS_TO_SET_UP)
        if rnic:
            self.add_rnic()
        conflist = "/etc/cni/net.d/10-pods.conflist"
        if self.start(["test", "-e", conflist]).wait() != 0:
            network = control_plane.cni_network(f"10.244.{self.number}.0/24", f"fd00:244:0:{self.number}::/64")
            self.write(conflist, json.dumps(network))
        systemd = self.init == "systemd"
        self.write("/run/containerd.toml", CONTAINERD_SETTINGS + (SYSTEMD_CGROUPS if systemd else ""))
        self.write("/run/kubelet.json", json.dumps({**KUBELET, "cgroupDriver": "systemd" if systemd else "cgroupfs"}))
        self.write("/run/kubeconfig", self.place.config.read_text())
        self.start_runtime()

    def add_rnic(self):
        """Only root may open the device on the node, so that sidecars have access only through the agent."""
        self.run(["/bin/sh", "-ec", "rdma link add rxe0 type rxe netdev eth1; chmod 0600 /dev/infiniband/uverbs*"])

    def start_runtime(self):
        self.serve("containerd", "--config", "/run/containerd.toml")
        wait_until(lambda: self.ctr("version", check=False), "containerd", SECONDS_TO_SET_UP)

    def join(self):
        client = ["--kubeconfig", "/run/kubeconfig", "--hostname-override", self.name]
        self.serve("kubelet", *client, "--config", "/run/kubelet.json", "--node-ip",
                   f"{self.address},fd00:9::{self.number}")
        self.serve("kube-proxy", *client, "--proxy-mode=nftables", "--cluster-cidr", PODS)

    def serve(self, name, *words):
        """Its log is in the folder of results."""
        program = self.programs[name]
        path = f"{find_containerd()['containerd'].parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        self.services[name] = self.start([program, *words], log=self.log_of(name).name, environment={"PATH": path},
                                         memlock=MEMLOCK_BYTES)

    def log_of(self, name):
        return self.folder / f"{name}.{self.name}.log"

    def check_alive(self):
        super().check_alive()
        for name, service in self.services.items():
            assert service.running, f"{name} of {self.name}: " + self.log_of(name).read_text(errors="replace")[-3000:]

    def ctr(self, *words, check=True, timeout=120):
        process = self.start([self.programs["ctr"], "-n", "k8s.io", *words])
        ended_well = process.wait(timeout) == 0
        assert ended_well or not check, f"ctr {' '.join(map(str, words))}: {process.output}"
        return process.output if ended_well else ""

    def add_image(self, archive):
        self.ctr("images", "import", archive)

    def restart_runtime(self):
        self.services.pop("containerd").stop()
        self.start_runtime()

    def reboot(self):
        self.services.clear()
        self.power_cycle()
        self.become_node()
        self.join()
