"""The cluster: a control plane on this machine, two guests as nodes, images, and the chart."""
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import containers
import control_plane
import helm
import initramfs
import kernel
import workload
from machine import Machine, find_containerd, find_dra_driver
from node import BUILD, ROOT

ADDRESS, ADDRESS_V6 = "10.9.0.254", "fd00:9::fe"
SERVICES = f"{control_plane.SERVICES},fd00:96::/112"
# In addition to those of Machine: programs that run on this machine.
OTHERS = ("gcc", "mkfs.ext4", "nft", "conntrack", "runc", "ping", "qemu-system-x86_64")
SYSTEM = ("-n", "fairlead-system")
SECONDS_TO_INSTALL = 600
PNET = "NETA"
FABRIC_MTU = 9000
VALUES = f"""
image: {{repository: {containers.FAIRLEAD}}}
proxy: {{sharedMemory: enabled}}
nodePools:
  - {{name: roce, pnet: {{id: {PNET}, rnics: [rxe0/1]}}}}
"""
SETUP = f"""
set -e
mount --make-rslave /
ip link set lo up
# One network for the nodes, one for their RNICs alone.
for name in tap fabric; do
  ip link add "$name" type bridge
  for number in 1 2; do
    ip tuntap add "$name$number" mode tap
    ip link set "$name$number" mtu {FABRIC_MTU} master "$name" up
  done
  ip link set "$name" up
done
ip address add {ADDRESS}/24 dev tap
ip address add {ADDRESS_V6}/64 dev tap nodad
for number in 1 2; do
  ip route add "10.244.$number.0/24" via "10.9.0.$number"
  ip route add "fd00:244:0:$number::/64" via "fd00:9::$number"
done
touch "$1/node.ready"
sleep infinity &
wait
"""


def why_not():
    """The missing prerequisites of this cluster; empty if there are none."""
    if why := control_plane.why_not(*OTHERS) or containers.why_not(*containers.REDIS_PROGRAMS):
        return why
    if not find_containerd():
        return "no containerd 2; scripts/containerd.sh builds it"
    if not find_dra_driver():
        return "no DRA driver for tests; scripts/dra_driver.sh builds it"
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun, by which the guests reach the control plane"
    return ""


class Place:
    """`folder` is emptied."""

    def __init__(self, folder, say):
        self.folder, self.say = folder, say
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.helm, why = helm.find_helm()
        if why:
            raise kernel.Unavailable(why)
        self.cluster = control_plane.ControlPlane(folder, ADDRESS, SETUP, others=OTHERS, services=SERVICES)
        self.nodes = []

    def start(self):
        the_kernel = kernel.find(self.say)
        image = self.folder / "initramfs"
        image.write_bytes(initramfs.build(the_kernel, ROOT / "tests/lab/guest/start.sh"))
        self.cluster.start_place()
        self.say(f"two guests boot with {the_kernel.version}")
        self.nodes = [Machine(number, self.folder, the_kernel, image, self.cluster) for number in (1, 2)]
        archives = self.make_images()
        self.cluster.start_api_server()
        self.cluster.start_controllers()
        self.say("the API server is ready")
        with ThreadPoolExecutor(len(self.nodes)) as setups:
            list(setups.map(lambda node: self.set_up(node, archives), self.nodes))
        for node in self.nodes:
            self.cluster.wait_node(node.name)
        self.say("both nodes are Ready")

    def set_up(self, node, archives):
        node.become_node(rnic=node.number == 1)  # the other gets its own in a check
        for archive in archives:
            node.add_image(f"/tmp/results/{archive.name}")
        node.join()
        self.say(f"{node.name}: containerd has the images, the kubelet starts")

    def make_images(self):
        store = containers.image_folder(BUILD, self.folder / "images")
        return workload.archives(containers.Runtime(store, self.folder))

    def helm_does(self, *words):
        """The output of helm; logs the duration."""
        begun = time.monotonic()
        done = self.cluster.in_node("env", f"KUBECONFIG={self.cluster.config}", self.helm, *words,
                                    timeout=SECONDS_TO_INSTALL)
        self.say(f"helm {words[0]} {words[1]} took {time.monotonic() - begun:.0f} s")
        return done

    def install(self, verb, *settings):
        values = self.folder / "values.yaml"
        values.write_text(VALUES)
        return self.helm_does(verb, "fairlead", helm.CHART, *SYSTEM, "--create-namespace", "--wait", "--timeout", "8m",
                              "--values", values, *settings)

    def close(self):
        for node in self.nodes:
            node.kill()
        self.cluster.close()
