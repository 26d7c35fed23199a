"""Events in the life of a cluster: failure and return of RNICs, nodes, agents and runtimes, upgrade,
uninstallation."""
from checks import check
from checks_access import AGENT, DAEMONSET
from expect import expect, expect_equal, wait_until
from leftovers import objects_left, on_node
from shop import BETWEEN, ON_NODE, TCP


@check
def agents_roll(stage):
    """a roll-out of the DaemonSet: open connections continue, new ones are SMC-R"""
    client, server = stage.far()
    with stage.shop.held(client, server.address):
        stage.cluster.kubectl(*AGENT, "rollout", "restart", DAEMONSET)
        stage.agents_run()
    stage.shop.expect_path(client, server.address, BETWEEN)
    stage.shop.expect_path(*stage.near_ends(), ON_NODE)


@check
def runtime_restarts(stage):
    """containerd restarts: open connections continue, and a new pod has its device"""
    client, server = stage.far()
    node = stage.nodes[0]
    before = stage.agent_log(node).count("event=registered")
    with stage.shop.held(client, server.address):
        node.restart_runtime()
        wait_until(lambda: stage.agent_log(node).count("event=registered") > before, "the agent to register again", 60)
    fresh = stage.shop.replace("web", node.name)
    with stage.explained(node):
        stage.shop.expect_path(fresh, server.address, BETWEEN)


@check
def rnic_down_and_up(stage):
    """an RNIC goes down, and new connections are TCP with the reason; it comes back, and they are SMC-R"""
    client, server = stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-1")
    node = stage.nodes[1]
    node.run(["ip", "link", "set", "eth1", "down"])
    try:
        stage.shop.expect_path(client, server.address, TCP, "rnic_port_down", "peer_declined")
        stage.shop.expect_path(client, stage.shop.pod("redis", "node-2").address, ON_NODE)
        far, peer = stage.far()
        stage.shop.expect_path(far, peer.address, TCP)
    finally:
        node.run(["ip", "link", "set", "eth1", "up"])
    stage.shop.expect_path(client, server.address, BETWEEN)
    stage.shop.expect_path(far, peer.address, BETWEEN)


@check
def node_reboots(stage):
    """a node loses its power and boots: its pods come back, and connections are SMC-R again"""
    stage.nodes[1].reboot()
    stage.say("node-2 has booted")
    stage.cluster.wait_node("node-2")
    stage.agents_run()
    stage.shop.wait_pods()

    def answers():  # its pods have other addresses now, but the API server still has the old ones for a while
        server = stage.shop.pods("redis").get("node-2")
        client = stage.shop.pod("web", "node-1")
        return server and stage.shop.ping(client, server.address) and (client, server)
    with stage.explained(stage.nodes[1]):
        client, server = wait_until(answers, "the server on the node that booted", 120)
        stage.shop.expect_path(client, server.address, BETWEEN)
        back, there = stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-1")
        stage.shop.expect_path(back, there.address, BETWEEN)


POLICY = """
table inet forbidden {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
    ip saddr {client} ip daddr {server} tcp dport 6379 ct state new counter reject
  }}
}}
"""


@check
def network_policy(stage):
    """a connection that a NetworkPolicy forbids is refused, also while the link group of both pods exists"""
    # No policy engine can be built from the registries. This rule is what one writes on the server's node.
    client, server = stage.far()
    node = stage.nodes[1]
    with stage.shop.held(client, server.address):
        node.run(["/bin/sh", "-ec", f"nft -f - <<'end'{POLICY.format(client=client.address, server=server.address)}end"])
        try:
            expect(not stage.shop.ping(client, server.address), "a forbidden connection goes through")
            rule = node.run(["nft", "list", "table", "inet", "forbidden"])
            expect("packets 0 " not in rule, f"the forbidden connection was not tried: {rule}")
            stage.shop.expect_path(*stage.near_ends(), ON_NODE)
        finally:
            node.run(["nft", "delete", "table", "inet", "forbidden"])
    stage.shop.expect_path(client, server.address, BETWEEN)


@check
def chart_is_upgraded(stage):
    """helm upgrade: open connections continue, and new pods have the new values"""
    client, server = stage.far()
    with stage.shop.held(client, server.address):
        stage.place.install("upgrade", "--set", "proxy.logLevel=debug,node.logLevel=debug")
        stage.agents_run()
    fresh = stage.shop.replace("web", "node-1")
    stage.shop.expect_path(fresh, server.address, BETWEEN)
    log = stage.shop.kubectl("logs", fresh.name, "-c", "fairlead-proxy")
    expect(" DEBUG " in log, "the sidecar's log level is not the new one")


@check
def chart_is_uninstalled(stage):
    """helm uninstall leaves nothing on the nodes and in the API, and connections work without Fairlead"""
    stage.place.helm_does("uninstall", "fairlead", *AGENT, "--wait", "--timeout", "8m")
    for node in stage.nodes:
        left = on_node(lambda *words, node=node: node.run(words, check=False))
        expect_equal(left, [], f"left on {node.name}")
    wait_until(lambda: not objects_left(stage.cluster.kubectl), "everything of the release to be gone", 60)
    client, server = stage.far()
    expect(stage.shop.ping(client, server.address), "no connection between nodes after the uninstallation")
    stage.shop.restart()
    client, server = stage.far()
    expect(stage.shop.ping(client, server.address), "no connection between new pods after the uninstallation")
    left = stage.shop.kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.initContainers[*].name}")
    expect_equal(left, "", "sidecars of pods made after the uninstallation")
