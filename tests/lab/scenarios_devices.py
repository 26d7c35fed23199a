"""RDMA devices that appear late, may not be opened, or lose their port; and GIDs of IPv6. These scenarios run before
all others, because a device cannot be deleted once the kernel has a link group on it."""
import contextlib

import pods
from exchange import talk_both_ways
from expect import expect, expect_equal, wait_until
from guest_proxy import static
from kernel_smc import Change
from node import BUILD
from scenario import scenario

NODE_FILE = "/dev/infiniband/uverbs0"
SECONDS_TO_NOTICE = 30  # the proxy looks for devices every 5 s
PROBE = 5  # seconds without a message before the kernel tests a link
SECONDS_TO_GIVE_UP = 60
IPV6 = {"a": "fd00:9::1", "b": "fd00:9::2"}


def device_of(proxy):
    """The row of rxe0, or None."""
    return next((row for row in proxy.get_json("/devices")["devices"] if row["name"] == "rxe0"), None)


def wait_device(proxy, state):
    return wait_until(lambda: (row := device_of(proxy)) and row["state"] == state and row,
                      f"rxe0 to be {state}", SECONDS_TO_NOTICE)


def expect_smcr_by_both(stage, proxy, act):
    """`act` makes one connection, SMC-R by the proxy's account and by that of the kernel on b."""
    change, before = Change(stage.kernels["b"]), proxy.metrics().connections("smcr")
    act()
    expect_equal(proxy.metrics().connections("smcr"), before + 1, "SMC-R connections of the proxy")
    counts = change.look()
    expect_equal((counts["server_v2"], counts["reasons"]), (1, {}), "SMC-R by the kernel's account")


@scenario
def late_device(stage):
    """no RDMA device at first: TCP; the proxy opens a device that appears, and connections are SMC-R"""
    a = stage.a
    a.run(["rdma", "link", "delete", "rxe0"], timeout=20)
    try:
        server, port = stage.serve(stage.b, "smc")
        proxy, entry = stage.outbound(a, stage.b.address, port)
        talk_both_ways(stage, a, server, "127.0.0.1", entry)
        proxy.expect_fallback("no_rdma_device", "local")
        expect_equal(device_of(proxy), None, "the device that is not there")
    finally:
        a.run(["rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0"])
        a.run(["chmod", "0666", NODE_FILE])
    wait_device(proxy, "active")
    expect_smcr_by_both(stage, proxy,
                        lambda: talk_both_ways(stage, a, server, "127.0.0.1", entry))


@scenario
def device_without_permission(stage):
    """the device's node may not be opened: TCP with that reason, doctor reports it; permitted, it is used"""
    a = stage.a
    a.run(["chmod", "0600", NODE_FILE])
    try:
        server, port = stage.serve(stage.b, "smc")
        proxy, entry = stage.outbound(a, stage.b.address, port)
        talk_both_ways(stage, a, server, "127.0.0.1", entry)
        proxy.expect_fallback("device_open_eperm", "local")
        detail = wait_device(proxy, "down")["detail"]
        expect("Permission denied" in detail, f"the device's row says {detail}")
        said = a.run([BUILD / "proxy/ctl/fairleadctl", "--admin", proxy.admin, "doctor"], check=False)
        line = next((line for line in said.splitlines() if "rxe0" in line), "")
        expect("no active port" in line, f"doctor: {said}")
        expect("request the RDMA device resource" in said, f"doctor has no such hint: {said}")
    finally:
        a.run(["chmod", "0666", NODE_FILE])
    wait_device(proxy, "active")
    expect_smcr_by_both(stage, proxy,
                        lambda: talk_both_ways(stage, a, server, "127.0.0.1", entry))


@scenario
def excluded_gids(stage):
    """the configuration excludes every GID: the device is listed with the reason, and no handshake uses it"""
    server, port = stage.serve(stage.b, "smc")
    proxy, entry = stage.outbound(stage.a, stage.b.address, port, {"smc": {"gid_subnets": ["192.0.2.0/24"]}})
    talk_both_ways(stage, stage.a, server, "127.0.0.1", entry)
    proxy.expect_fallback("no_usable_gid", "local")
    row = device_of(proxy)
    expect_equal((row["state"], row["reason"]), ("active", "no_usable_gid"), "the row of rxe0")
    expect("exclude every GID" in row["detail"], f"the row of rxe0 says {row['detail']}")


@contextlib.contextmanager
def port_down(stage):
    """The cable of node a is out. The node's own pod stays within reach."""
    a, b = stage.a, stage.b
    a.run(["ip", "link", "set", "eth0", "down"])
    try:
        yield
    finally:
        a.run(["ip", "link", "set", "eth0", "up"])
        # The kernel drops routes with the link and keeps only the addresses of IPv4.
        a.run(["ip", "route", "replace", f"10.9.{b.number}.0/24", "via", b.address])


@scenario
def port_down_and_up(stage):
    """the RNIC's port goes down under load: the connection is reset and its group ends, new ones are TCP for that
    reason; up again, they are SMC-R"""
    a = stage.a
    stage.kernels["b"].test_links_every(PROBE)
    server, port = stage.serve(stage.b, "smc")
    proxy, entry = stage.outbound(a, stage.b.address, port)
    neighbour, near_port = stage.serve(a, "smc", netns=pods.NAME)
    near, near_entry = stage.outbound(a, pods.address(a), near_port)
    expect_smcr_by_both(stage, proxy,
                        lambda: talk_both_ways(stage, a, server, "127.0.0.1", entry))
    load = a.spawn("traffic.talk", address="127.0.0.1", port=entry, key="load.",
                   mine=[["send_until_refused"]], theirs=[["receive"]])
    load.event(30)
    expect_equal(proxy.metrics().connections("smcr"), 2, "SMC-R connections with the port up")
    with port_down(stage):
        expect_equal(load.value(SECONDS_TO_NOTICE)[0], ["reset"], "the application under load")
        wait_until(lambda: not proxy.get_json("/linkgroups")["link_groups"], "the group to go")
        for one in (proxy, near):
            wait_device(one, "down")
        talk_both_ways(stage, a, neighbour, "127.0.0.1", near_entry)
        near.expect_fallback("rnic_port_down", "local")
    wait_device(proxy, "active")
    # No message could tell the kernel that its group has ended. Its retries and its test of the link detect it.
    wait_until(lambda: not any(group["connections"] for group in stage.kernels["b"].show()["groups"]),
               "the kernel to give its group up", SECONDS_TO_GIVE_UP)
    expect_smcr_by_both(stage, proxy,
                        lambda: talk_both_ways(stage, a, server, "127.0.0.1", entry))
    expect_equal(proxy.metrics().fallbacks(), {}, "fallbacks")


@scenario
def handed_over(stage):
    """the alias of lo, as the CNI plugin writes it, determines which RNICs a pod may use, and their network"""
    def hand_over(rnic):
        alias = f"smc1;pnet=NETA;mode=shared;gid=auto;rnic={rnic}" if rnic else ""
        stage.a.run(["ip", "link", "set", "lo", "alias", alias])
    try:
        hand_over("rxe9/1")
        server, port = stage.serve(stage.b, "smc")
        proxy, entry = stage.outbound(stage.a, stage.b.address, port)
        wait_device(proxy, "active")
        talk_both_ways(stage, stage.a, server, "127.0.0.1", entry)
        proxy.expect_fallback("no_pnet", "local")
        hand_over("rxe0/1")
        wait_until(lambda: talk_both_ways(stage, stage.a, server, "127.0.0.1", entry)
                   or proxy.metrics().connections("smcr"), "SMC-R by the RNIC that is handed over", SECONDS_TO_NOTICE)
        row = device_of(proxy)
        expect_equal((row["pnet"], row["pnet_source"]), ("NETA", "node"), "the network of rxe0")
    finally:
        hand_over("")


@scenario
def ipv6_gids(stage):
    """two proxies that meet over IPv6 use the GIDs of their IPv6 addresses"""
    for node in (stage.a, stage.b):
        node.run(["ip", "address", "replace", f"{IPV6[node.name]}/64", "dev", "eth0", "nodad"])
    server, port = stage.serve(stage.b, "tcp")
    inbound = stage.proxy(stage.b, [static("in", "inbound", f"127.0.0.1:{port}",
                                           f"[{IPV6['b']}]:0")])
    outbound = stage.proxy(stage.a, [static("out", "outbound",
                                            f"[{IPV6['b']}]:{inbound.ports['in']}")])
    talk_both_ways(stage, stage.a, server, "127.0.0.1", outbound.ports["out"])
    for proxy in (inbound, outbound):
        proxy.expect_smcr(1)
    link = outbound.get_json("/links")["links"][0]
    expect_equal((link["local_gid"], link["peer_gid"]), (IPV6["a"], IPV6["b"]), "GIDs of the link")
