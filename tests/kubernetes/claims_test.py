#!/usr/bin/env python3
"""Claims of injected pods in a cluster of one node, with the DRA driver of tests/two_nodes and invented RNICs.

Controllers create the claim of an injected pod, the scheduler allocates a device to it, and the kubelet has the driver
prepare it. The pods need no images, because the kubelet prepares claims before it starts containers.
"""
import copy
import json
import sys
import tempfile
import unittest
from pathlib import Path

import cluster
import containers
import go_programs
import workload

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import main, wait_until  # pylint: disable=wrong-import-position

ROOT = Path(__file__).parents[2]
EXPECTED = {name: json.loads((ROOT / f"tests/injection/expected/{name}.json").read_text())["pod"]
            for name in ("rnic_claim", "rnic_claim_of_the_pod")}
RNICS = {"rxe0": (231, 192), "rxe1": (231, 193)}
NODE_OF_RXE0 = {"path": "/dev/infiniband/uverbs0", "type": "c", "major": 231, "minor": 192, "fileMode": 0o600, "uid": 2201, "gid": 2201}


def find_driver():
    """Its path, or the reason why it is missing."""
    found = go_programs.DRA_DRIVER.find("dra-driver")
    return (found, "") if found else (None, "no DRA driver, or an older one; scripts/dra_driver.sh builds it")


class Claims(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        driver, why = None, cluster.why_not()
        if not why:
            driver, why = find_driver()
        if why:
            raise unittest.SkipTest(why)
        temporary = tempfile.TemporaryDirectory(prefix="fairlead-claims-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.folder.chmod(0o755)
        cls.invent_rnics()
        plugins = next(path for path in containers.PLUGIN_DIRS if (path / "bridge").exists())
        cls.cluster = cluster.Cluster(cls.folder, plugins)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()
        cls.cluster.programs["dra-driver"] = driver
        cls.cluster.launch("dra-driver", "-node", cluster.NODE, "-kubeconfig", cls.cluster.config, "-cdi", cls.folder / "cdi",
                           "-sysfs", cls.folder / "sys")
        cls.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}, workload.device_class(),
            *(workload.claim_template(name, rnic) for name, rnic in (("rdma-nic", "rxe0"), ("nothing", "nothing"), ("none-there", "mlx5_0"))))
        cls.cluster.wait(lambda: cls.found("resourceslices"), "the ResourceSlice")

    @classmethod
    def invent_rnics(cls):
        for number, (name, (major, minor)) in enumerate(RNICS.items()):
            folder = cls.folder / f"sys/class/infiniband_verbs/uverbs{number}"
            folder.mkdir(parents=True)
            (folder / "ibdev").write_text(f"{name}\n")
            (folder / "dev").write_text(f"{major}:{minor}\n")

    @classmethod
    def found(cls, kind):
        return json.loads(cls.cluster.kubectl("-n", "shop", "get", kind, "-o", "json"))["items"]

    def create(self, name, case="rnic_claim", template_name="rdma-nic"):
        pod = copy.deepcopy(EXPECTED[case])
        pod["metadata"]["name"] = name
        for claim in pod["spec"]["resourceClaims"]:
            if "resourceClaimTemplateName" in claim:
                claim["resourceClaimTemplateName"] = template_name
        self.cluster.apply(pod)
        self.addCleanup(self.cluster.kubectl, "-n", "shop", "delete", "pod", name, "--force", "--ignore-not-found")

    def allocated(self, pod):
        """The devices of the claim that is reserved for the pod."""
        for claim in self.found("resourceclaims"):
            users = [user["name"] for user in claim.get("status", {}).get("reservedFor", [])]
            if pod in users:
                return [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]]
        return []

    def log(self):
        return (self.folder / "dra-driver.log").read_text()

    def cdi(self):
        """Device nodes of all prepared claims."""
        files = [json.loads(path.read_text()) for path in (self.folder / "cdi").glob("*.json")]
        return [node for file in files for device in file["devices"] for node in device["containerEdits"]["deviceNodes"]]

    def waiting(self, pod):
        """Events about a pod."""
        return [event["message"] for event in self.found("events") if event["involvedObject"]["name"] == pod]

    def test_the_sidecars_claim_is_allocated_prepared_and_given_back(self):
        self.create("claims")
        self.cluster.wait(lambda: self.cdi(), "the kubelet to have the claim prepared")  # pylint: disable=unnecessary-lambda
        self.assertEqual(self.cdi(), [NODE_OF_RXE0])
        (device,) = self.allocated("claims")
        self.assertIn(device, [f"rxe0-{share}" for share in range(4)])
        self.cluster.kubectl("-n", "shop", "delete", "pod", "claims", "--grace-period=1")
        wait_until(lambda: not self.cdi(), "the claim to be given back", 120)

    def test_a_claim_of_the_pod_itself_serves_the_sidecar(self):
        own = {**workload.claim_template("shop-nic", "rxe0"), "kind": "ResourceClaim"}
        own["spec"] = own["spec"]["spec"]
        self.cluster.apply(own)
        self.create("brings", "rnic_claim_of_the_pod")
        self.cluster.wait(lambda: "prepared shop/shop-nic: 1 device nodes" in self.log(), "the pod's claim")
        self.assertEqual(self.cdi(), [NODE_OF_RXE0])
        self.cluster.kubectl("-n", "shop", "delete", "pod", "brings", "--grace-period=1")
        wait_until(lambda: not self.cdi(), "the claim to be given back", 120)

    def test_a_claim_without_device_nodes_does_not_stop_the_pod(self):
        self.create("empty", template_name="nothing")
        self.cluster.wait(lambda: "empty-fairlead-rnic" in self.log(), "the empty claim")
        self.assertRegex(self.log(), "prepared shop/empty-fairlead-rnic-[a-z0-9]+: 0 device nodes")
        self.assertEqual(self.allocated("empty"), ["nothing"])

    def test_pods_whose_claims_cannot_be_had_wait_and_say_why(self):
        self.create("unmatched", template_name="none-there")
        self.create("untold", template_name="missing")
        for pod, words in (("unmatched", "cannot allocate all claims"), ("untold", 'resource claim template "missing"')):
            self.cluster.wait(lambda pod=pod, words=words: any(words in message for message in self.waiting(pod)),
                              f"an Event about {pod} with {words}")
            (phase,) = [one["status"]["phase"] for one in self.found("pods") if one["metadata"]["name"] == pod]
            self.assertEqual(phase, "Pending")


if __name__ == "__main__":
    main()
