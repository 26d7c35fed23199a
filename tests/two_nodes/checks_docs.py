"""Runs the commands of docs/rdma-nodes.md as they are on the page."""
import shlex

import documented
from checks import check
from expect import expect, wait_until
from node import BUILD
from shop import BETWEEN, SECONDS_TO_CARRY
from workload import REQUESTS_TO_EARN

CTL = BUILD / "proxy/ctl/fairleadctl"
SECONDS_TO_TEST = 300


def typed(stage, command):
    """Runs commands about a node on node-1, with its names, and all others where the kubeconfig is."""
    words = shlex.split(command)
    if words[0] in ("rdma", "ls", "ip", "ping"):
        own = {"IF": "eth1", "ADDRESS_OF_THE_OTHER_NODE": "10.9.1.2"}
        return stage.nodes[0].run([own.get(word, word) for word in words])
    cluster = stage.cluster
    programs = {"kubectl": cluster.programs["kubectl"], "fairleadctl": CTL, "helm": stage.place.helm}
    return cluster.in_node("env", f"KUBECONFIG={cluster.config}", programs[words[0]], *words[1:], timeout=SECONDS_TO_TEST)


@check
def documented_commands(stage):
    """each command of docs/rdma-nodes.md, step by step, has the documented result"""
    node, cluster, restart, look = documented.groups("docs/rdma-nodes.md", "Step by step")
    told = {command: typed(stage, command) for command in node + cluster}
    expect("state ACTIVE" in told["rdma link"] and "netns shared" in told["rdma system"], f"step 1 shows: {told}")
    expect("10.9.1.1" in told["ip -brief address show dev IF"], f"step 1 shows: {told}")
    for command in restart:
        typed(stage, command)
    stage.shop.rolled_out()
    client, server = stage.far()
    stage.shop.expect_path(client, server.address, BETWEEN)

    def shown():
        # `deploy/web` is either pod.
        stage.shop.ping(client, server.address, REQUESTS_TO_EARN)
        stage.shop.ping(stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-1").address, REQUESTS_TO_EARN)
        told.update({command: typed(stage, command) for command in look})
        text = "\n".join(told[command] for command in look)
        return "verbs" in text and "SMC-R" in text and "rxe0" in text
    wait_until(shown, f"what step 5 shows, {told}", SECONDS_TO_CARRY)


@check
def helm_test(stage):
    """helm test: two pods on two nodes exchange bytes, and do so over SMC-R"""
    stage.place.helm_does("test", "fairlead", "-n", "fairlead-system", "--timeout", "5m")
