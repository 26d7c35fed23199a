"""Checks sidecars that get their RNIC by a claim (resource.k8s.io/v1) from a DRA driver. dra_driver/main.go is the driver."""
import contextlib
import json

import workload
from checks import SECONDS_TO_ROLL, check
from expect import expect, expect_equal, wait_until
from shop import BETWEEN, TCP

UID = 2201
AGENTS = ("-n", "fairlead-system", "rollout", "status", "daemonset/fairlead-node-roce", f"--timeout={SECONDS_TO_ROLL}s")


@contextlib.contextmanager
def drivers(stage):
    """The driver on both nodes, and agents that leave devices to it."""
    stage.place.install("upgrade", "--set", "node.rnicAccess=claim")
    stage.cluster.kubectl(*AGENTS, timeout=SECONDS_TO_ROLL + 30)
    stage.cluster.apply(workload.device_class())
    try:
        for node in stage.nodes:
            node.serve("dra-driver", "-node", node.name, "-kubeconfig", "/run/kubeconfig")
        for node in stage.nodes:
            wait_until(lambda node=node: offered(stage, node), f"the ResourceSlice of {node.name}", 120)
        yield
    finally:
        for node in stage.nodes:
            if service := node.services.pop("dra-driver", None):
                service.stop()
        stage.cluster.kubectl("delete", "deviceclass", "rnic", check=False)
        stage.place.install("upgrade")
        stage.agents_run()


def offered(stage, node):
    """Names of the devices that the driver offers there."""
    slices = json.loads(stage.cluster.kubectl("get", "resourceslices", "-o", "json"))["items"]
    return [device["name"] for one in slices if one["spec"].get("nodeName") == node.name for device in one["spec"].get("devices", [])]


@contextlib.contextmanager
def claiming(stage, rnic, node):
    """A pod there whose sidecar claims this RNIC."""
    name = f"claims-{rnic}"
    stage.cluster.apply(workload.claim_template(f"claim-{rnic}", rnic))
    thing = workload.deployment(name, nodeSelector={"kubernetes.io/hostname": node.name})
    thing["spec"]["template"]["metadata"]["annotations"] = {"fairlead.io/rnic-claim-template": f"claim-{rnic}"}
    stage.cluster.apply(thing)
    try:
        stage.shop.kubectl("rollout", "status", f"deploy/{name}", f"--timeout={SECONDS_TO_ROLL}s", timeout=SECONDS_TO_ROLL + 30)
        yield stage.shop.pod(name, node.name)
    finally:
        # Until the pod has gone: the kubelet needs the driver to give the claim back, and keeps the pod without it.
        stage.shop.kubectl("delete", "deploy", name, "--cascade=foreground", f"--timeout={SECONDS_TO_ROLL}s", timeout=SECONDS_TO_ROLL + 30,
                           check=False)
        stage.shop.kubectl("delete", "resourceclaimtemplate", f"claim-{rnic}", "--wait=false", check=False)
        wait_until(lambda: not stage.shop.kubectl("get", "pods", "-l", f"app={name}", "-o", "name").strip(),
                   f"{name} to be gone", SECONDS_TO_ROLL)


@check
def claims(stage):
    """with rnicAccess claim a sidecar has the device of its claim alone; one of no device or of another PNET is named"""
    node = stage.nodes[0]
    server = stage.shop.pod("redis", "node-2")
    with drivers(stage):
        with claiming(stage, "rxe0", node) as pod:
            sidecar = stage.shop.look_into(pod, stage.nodes)
            expect_equal([sidecar["nodes"], sidecar["opens"]], [{"rxe0": [UID, "0o600"]}, {"rxe0": "", "rxe1": "EPERM"}],
                         "devices of the sidecar with a claim")
            expect_equal(stage.shop.look_into(pod, stage.nodes, "redis-server")["nodes"], {}, "devices of its application")
            stage.shop.expect_path(pod, server.address, BETWEEN)
        with claiming(stage, "nothing", node) as pod:
            expect_equal(stage.shop.look_into(pod, stage.nodes)["nodes"], {}, "devices of a claim without device nodes")
            stage.shop.expect_path(pod, server.address, TCP, "rnic_not_given")
            expect_row(stage, pod, "the pod's claim fairlead-rnic of template claim-nothing gave the container no RDMA device")
        with claiming(stage, "rxe1", node) as pod:
            expect_equal(stage.shop.look_into(pod, stage.nodes)["nodes"], {"rxe1": [UID, "0o600"]}, "devices of a claim for another PNET")
            stage.shop.expect_path(pod, server.address, TCP, "no_pnet")
            expect_row(stage, pod, "the port is not in this pod's network (PNET), and is not used")
    # The agents give devices again.
    stage.shop.expect_path(stage.shop.replace("web", node.name), server.address, BETWEEN)


def expect_row(stage, pod, detail):
    rows = stage.shop.ctl(pod, "devices")["devices"]
    expect(any(row["detail"] == detail for row in rows), f"fairleadctl devices does not say \"{detail}\": {rows}")
