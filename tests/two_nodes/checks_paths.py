"""Connections between nodes, on a node and through a Service, and the commands that report them."""
from checks import check
from expect import expect, wait_until
from shop import BETWEEN, ON_NODE


@check
def between_nodes(stage):
    """connections between nodes are SMC-R over the RNICs"""
    client, server = stage.far()
    with stage.explained(stage.nodes[0]):
        path = stage.shop.expect_path(client, server.address, BETWEEN)
    expect(path.peer_host == server.name[:32], f"the peer is {path.peer_host}, not {server.name}")
    back, there = stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-1")
    with stage.explained(stage.nodes[1]):
        stage.shop.expect_path(back, there.address, BETWEEN)


@check
def on_a_node(stage):
    """connections on a node are SMC-R over shared memory"""
    client, server = stage.near()
    path = stage.shop.expect_path(client, server.address, ON_NODE)
    expect(path.peer_host == server.name[:32], f"the peer is {path.peer_host}, not {server.name}")
    back, there = stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-2")
    stage.shop.expect_path(back, there.address, ON_NODE)


@check
def over_ipv6(stage):
    """connections over IPv6 use the same transports"""
    client, server = stage.far()
    with stage.explained(stage.nodes[0]):
        stage.shop.expect_path(client, server.address_v6, BETWEEN)
    stage.shop.expect_path(client, stage.shop.pod("redis", "node-1").address_v6, ON_NODE)
    back, there = stage.shop.pod("web", "node-2"), stage.shop.pod("redis", "node-1")
    with stage.explained(stage.nodes[1]):
        stage.shop.expect_path(back, there.address_v6, BETWEEN)


@check
def through_the_service(stage):
    """the Service leads to both pods, by the right transport for each, over IPv4 and over IPv6"""
    client, services = stage.shop.pod("web", "node-1"), stage.shop.service_addresses()
    expect(len(services) == 2, f"addresses of the Service: {services}")
    for service in services:
        leads_to_both(stage, client, service)


def leads_to_both(stage, client, service):
    hosts = {pod.name[:32]: pod.node for pod in stage.shop.pods("redis").values()}
    left = {"node-1": ON_NODE, "node-2": BETWEEN}

    def another():
        path = stage.shop.path(client, service)
        node = hosts.get(path.peer_host)
        expect(path.way in (BETWEEN, ON_NODE) and node, f"through the Service: {path}, pods {hosts}")
        wanted = ON_NODE if node == client.node else BETWEEN
        expect(path.way == wanted, f"through the Service to {node}: {path.way}, not {wanted}")
        stage.shop.counts[path.way] += 1
        left.pop(node, None)
        return not left
    wait_until(another, "the Service to have led to both pods", 60)


@check
def logs_and_why(stage):
    """kubectl logs and fairleadctl why report the transport"""
    client, server = stage.far()
    log = stage.shop.kubectl("logs", client.name, "-c", "fairlead-proxy")
    for words in ("event=device device=rxe0 port=1 state=active", "pnet=NETA", "event=established"):
        expect(words in log, f"no {words} in the sidecar's log: {log[-3000:]}")
    expect("[::ffff:" not in log, f"IPv4 addresses as IPv6 in the sidecar's log: {log[-3000:]}")
    text = stage.shop.in_pod(client, "fairlead-proxy", "fairleadctl", "why", server.address)
    expect(text.startswith(f"outbound {server.address}:6379: SMC-R"), f"fairleadctl why says: {text}")
    inbound = stage.shop.in_pod(server, "fairlead-proxy", "fairleadctl", "connections")
    expect("[::ffff:" not in inbound, f"IPv4 addresses as IPv6 in the table: {inbound}")
    rows = stage.shop.ctl(client, "devices")["devices"]
    expect(any(row["name"] == "rxe0" and row["state"] == "active" for row in rows), f"fairleadctl devices: {rows}")
