"""Checks which containers get an RNIC, and the other rights of a sidecar."""
import json

import workload
from checks import SECONDS_TO_ROLL, check
from expect import expect, expect_equal, wait_until
from shop import BETWEEN, ON_NODE, Pod, TCP

UID = 2201
AGENT = ("-n", "fairlead-system")
DAEMONSET = "daemonset/fairlead-node-roce"
NOWHERE = {"fairlead.test/nowhere": "true"}


def place_agents(stage, selector):
    patch = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
    stage.cluster.kubectl(*AGENT, "patch", DAEMONSET, "--type=merge", "-p", json.dumps(patch))


@check
def node_without_rnic(stage):
    """a node without an RNIC has TCP to others, with its reason, until it gets one"""
    client, server = stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-1")
    stage.shop.expect_path(client, server.address, TCP, "no_rdma_device", "peer_declined")
    stage.shop.expect_path(client, stage.shop.pod("redis", "node-2").address, ON_NODE)
    far, peer = stage.far()
    stage.shop.expect_path(far, peer.address, TCP)
    rows = stage.shop.ctl(client, "devices")["devices"]
    expect(any("no RNIC of this pod's network" in row["detail"] for row in rows), f"fairleadctl devices does not say why: {rows}")
    log = stage.agent_log(stage.nodes[1])
    expect(f"pod=shop/{client.name} result=no_rnic" in log, f"the agent's log does not say why: {log[-3000:]}")
    stage.nodes[1].add_rnic()
    for app in ("web", "redis"):
        stage.shop.replace(app, "node-2")


@check
def only_the_pnets_devices(stage):
    """the sidecar has the device of its PNET alone, and the application none; the kernel refuses the others"""
    for node in stage.nodes:
        pod = stage.shop.pod("web", node.name)
        sidecar = stage.shop.look_into(pod, stage.nodes)
        with stage.explained(node):
            expect_equal(sidecar["nodes"], {"rxe0": [UID, "0o600"]}, f"device nodes of the sidecar on {node.name}")
        expect_equal(sidecar["opens"], {"rxe0": "", "rxe1": "EPERM"}, f"opening RNICs in the sidecar's cgroup on {node.name}")
        application = stage.shop.look_into(pod, stage.nodes, "redis-server")
        expect_equal(application["nodes"], {}, f"device nodes of the application on {node.name}")
        expect_equal(application["opens"], {"rxe0": "EPERM", "rxe1": "EPERM"}, "opening RNICs in the application's cgroup")


@check
def locked_memory(stage):
    """the sidecar may lock memory, its application no more than before"""
    pod = stage.shop.pod("web", "node-1")
    expect_equal(stage.shop.look_into(pod, stage.nodes)["memlock"], ["unlimited", "unlimited"], "of the sidecar")
    expect_equal(stage.shop.look_into(pod, stage.nodes, "redis-server")["memlock"], ["8388608", "8388608"],
                 "of the application")


@check
def restricted(stage):
    """the sidecar passes Pod Security restricted, which is enforced, and has no right"""
    told = stage.shop.look_into(stage.shop.pod("web", "node-1"), stage.nodes)
    expect_equal([told["uid"], told["capabilities"], told["no_new_privs"], told["seccomp"]], [UID, 0, True, True],
                 "uid, capabilities, no_new_privs and seccomp of the sidecar")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rooted", "namespace": "shop"},
           "spec": {"containers": [{"name": "rooted", "image": "localhost/redis:1",
                                    "securityContext": {"privileged": True}}]}}
    refusal = refused(stage, pod)
    expect("violates PodSecurity" in refusal, f"a privileged pod is not refused: {refusal}")


def refused(stage, pod):
    """The reason why the API server refuses it."""
    try:
        stage.cluster.kubectl("create", "-f", "-", input=json.dumps(pod))
    except AssertionError as error:
        return str(error)
    return "nothing"


@check
def forged(stage):
    """a container with the sidecar's name gets nothing, and the injection's annotation cannot be forged"""
    spec = workload.deployment("forged")["spec"]["template"]["spec"]
    spec["containers"][0]["name"] = "fairlead-proxy"
    spec["nodeName"] = "node-1"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "forged", "namespace": "default"}, "spec": spec}
    marked = {**pod, "metadata": {**pod["metadata"], "annotations": {"fairlead.io/status": "{}"}}}
    refusal = refused(stage, marked)
    expect("no RNIC" in refusal, f"a forged mark is not refused: {refusal}")
    stage.cluster.apply(pod)
    try:
        stage.cluster.kubectl("wait", "--for=condition=Ready", "pod/forged", "--timeout=120s")
        uid = stage.cluster.kubectl("get", "pod", "forged", "-o", "jsonpath={.metadata.uid}")
        told = stage.shop.look_into(Pod("forged", uid, "", "", "node-1", 0), stage.nodes, "redis-server")
        expect_equal([told["nodes"], told["opens"]["rxe0"]], [{}, "EPERM"], "devices of a container called fairlead-proxy")
    finally:
        stage.cluster.kubectl("delete", "pod", "forged", "--wait=false", check=False)


@check
def late_device(stage):
    """a sidecar that is created while no agent runs gets its device when an agent starts, without a restart"""
    node = stage.nodes[0]
    place_agents(stage, NOWHERE)
    try:
        wait_until(lambda: not any(map(stage.agent, stage.nodes)), "the agents to be gone", SECONDS_TO_ROLL)
        pod = stage.shop.replace("web", node.name)
        expect_equal(stage.shop.look_into(pod, stage.nodes)["nodes"], {}, "device nodes without an agent")
        server = stage.shop.pod("redis", "node-2")
        stage.shop.expect_path(pod, server.address, TCP)
    finally:
        place_agents(stage, None)
    stage.agents_run()
    with stage.explained(node):
        wait_until(lambda: stage.shop.look_into(pod, stage.nodes)["nodes"] == {"rxe0": [UID, "0o600"]},
                   "the late device", 60)
    expect(f"event=rnic_given_late pod=shop/{pod.name}" in stage.agent_log(node), "the agent's log says nothing of it")
    stage.shop.expect_path(pod, server.address, BETWEEN)
    told = stage.shop.look_into(pod, stage.nodes)
    expect_equal([told["opens"], told["memlock"]], [{"rxe0": "", "rxe1": "EPERM"}, ["unlimited", "unlimited"]],
                 "what the sidecar may then")
    expect_equal(stage.shop.pod("web", node.name).restarts, pod.restarts, "restarts of the sidecar")
