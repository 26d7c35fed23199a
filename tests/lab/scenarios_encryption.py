"""If the path between the nodes is encrypted below TCP, connections do not use RNICs, unless the configuration trusts
the RDMA network."""
import contextlib
import json
import re

import pods
from expect import expect, expect_equal
from guest_proxy import redirected
from node import BUILD, ROOT
from scenario import scenario
from scenarios_fallback import expect_declined, to_kernel, with_kernel
from scenarios_interop import both
from scenarios_pods import INBOUND, OUTBOUND, REDIS, in_pod, start_redis

SECONDS_OF_THE_PLUGIN = 120
TRUSTED = {"smc": {"trusted_fabric": True, "option_program": "external"}}
RUN_DIR = "/tmp/lab/cni"


@contextlib.contextmanager
def told(stage, paths):
    """Writes the note of the node side about destinations that node a reaches through encryption."""
    def note(text):
        stage.a.run(["ip", "link", "set", "lo", "alias", text])
    note(f"smc1;mode=none;crypt={paths}")
    try:
        yield
    finally:
        note("")


@both
def encrypted_path(stage, role):
    """the path to a kernel is encrypted: the proxy sends a Decline for that reason, instead of a Proposal or for one"""
    with told(stage, f"{stage.b.address}/32" if role == "client" else "all"):
        expect_declined(role, *with_kernel(stage, role), "encrypted_path")


@scenario
def encrypted_path_trusted(stage):
    """the configuration trusts the RDMA network: SMC-R although the path is encrypted"""
    with told(stage, "all"):
        proxy, counts = to_kernel(stage, TRUSTED)
    expect_equal(proxy.metrics().fallbacks(), {}, "fallbacks")
    expect_equal(counts["server_v2"], 1, "SMC-R connections of the kernel")


@scenario
def encryption_of_the_kernel(stage):
    """links of WireGuard and IPsec on a node: the CNI plugin writes the destinations behind them into the note"""
    stage.a.run(["modprobe", "-a", "wireguard", "ip_vti"])
    output = stage.a.run(
        ["env", f"FAIRLEAD_CNI={BUILD}/cni/fairlead-cni", f"FAIRLEAD_NODE={BUILD}/cni/fairlead-node", "python3", "-B",
         ROOT / "tests/cni/encryption_test.py", "Encryption.test_routes_to_a_wireguard_link",
         "Encryption.test_routes_to_an_ipsec_link"], timeout=SECONDS_OF_THE_PLUGIN)
    expect("skipped" not in output, output[-1500:])


def plugin(node, verb):
    """Calls the CNI plugin for the node's pod, as a runtime does."""
    ip = {"address": f"{pods.address(node)}/24", "interface": 0}
    node.write("/tmp/lab/cni.json", json.dumps({
        "cniVersion": "1.1.0", "name": "podnet", "type": "fairlead-cni", "runDir": RUN_DIR,
        "capabilities": {"io.kubernetes.cri.pod-annotations": True},
        "runtimeConfig": {"io.kubernetes.cri.pod-annotations": {"fairlead.io/status": "{}",
                                                                "fairlead.io/inject": "enabled"}},
        "prevResult": {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0", "sandbox": f"/run/netns/{pods.NAME}"}],
                       "ips": [ip], "routes": [{"dst": "0.0.0.0/0"}], "dns": {}}}))
    node.run(["/bin/sh", "-ec", f"""
        mkdir -p {RUN_DIR}; touch {RUN_DIR}/enabled
        CNI_COMMAND={verb} CNI_CONTAINERID=lab CNI_NETNS=/run/netns/{pods.NAME} CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin \
        CNI_ARGS="K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=default" {BUILD}/cni/fairlead-cni < /tmp/lab/cni.json
        """])


@contextlib.contextmanager
def plugged(stage, options=None):
    """A proxy in each pod, with the note of the CNI plugin: [on a, on b]. Then a connection between them."""
    try:
        for node in (stage.a, stage.b):
            plugin(node, "ADD")
        proxies = [stage.proxy(node, [redirected("out", "outbound", OUTBOUND), redirected("in", "inbound", INBOUND)],
                               options, netns=pods.NAME) for node in (stage.a, stage.b)]
        start_redis(stage.b)
        said = in_pod(stage.a, ["redis-cli", "-h", pods.address(stage.b), "-p", REDIS, "PING"])
        expect_equal(said.strip(), "PONG", "the server's answer")
        yield proxies
    finally:
        for node in (stage.a, stage.b):
            plugin(node, "DEL")


@contextlib.contextmanager
def ipsec(stage):
    """Encrypts traffic between the pods of the two nodes by ESP. Yields a function: packets in ESP so far."""
    for node, other in ((stage.a, stage.b), (stage.b, stage.a)):
        ends = f"src {node.address} dst {other.address}"
        back = f"src {other.address} dst {node.address}"
        nets = f"src 10.9.{node.number}.0/24 dst 10.9.{other.number}.0/24"
        nets_back = f"src 10.9.{other.number}.0/24 dst 10.9.{node.number}.0/24"
        cipher = f"mode tunnel aead 'rfc4106(gcm(aes))' 0x{'17' * 20} 128"
        node.run(["/bin/sh", "-ec", f"""
            ip xfrm state add {ends} proto esp spi 0x10{node.number} {cipher}
            ip xfrm state add {back} proto esp spi 0x10{other.number} {cipher}
            ip xfrm policy add {nets} dir out tmpl {ends} proto esp mode tunnel
            ip xfrm policy add {nets_back} dir fwd tmpl {back} proto esp mode tunnel
            ip xfrm policy add {nets_back} dir in tmpl {back} proto esp mode tunnel
            """])

    def packets():
        shown = stage.a.run(["ip", "-s", "xfrm", "state"])
        return sum(int(count) for count in re.findall(r"(\d+)\(packets\)", shown))
    try:
        yield packets
    finally:
        for node in (stage.a, stage.b):
            node.run(["/bin/sh", "-ec", "ip xfrm policy flush; ip xfrm state flush"])


@scenario
def ipsec_between_nodes(stage):
    """IPsec between the nodes: the CNI plugin tells the sidecars, their connection is TCP, and goes through ESP"""
    with ipsec(stage) as packets, plugged(stage) as (client, server):
        client.expect_fallback("encrypted_path", "local")
        server.expect_fallback("encrypted_path", "peer")
        expect(packets() > 0, "nothing went through ESP")


@scenario
def ipsec_with_a_trusted_fabric(stage):
    """the same with smc.trusted_fabric: SMC-R"""
    with ipsec(stage), plugged(stage, TRUSTED) as proxies:
        for proxy in proxies:
            proxy.expect_smcr(1)


@scenario
def wireguard_route_of_the_server(stage):
    """the server's node has a route to a link of WireGuard: the server declines, for that reason on both sides"""
    stage.b.run(["/bin/sh", "-ec", """
        modprobe wireguard
        ip link add wireguard.cali type wireguard
        ip link set wireguard.cali up
        ip route add 10.9.1.0/24 dev wireguard.cali table 77
        """])
    try:
        with plugged(stage) as (client, server):
            server.expect_fallback("encrypted_path", "local")
            client.expect_fallback("encrypted_path", "peer")
    finally:
        stage.b.run(["ip", "link", "delete", "wireguard.cali"])


@scenario
def plain_path_after_encryption(stage):
    """nothing encrypts any more: the same pods use SMC-R"""
    with plugged(stage) as proxies:
        for proxy in proxies:
            proxy.expect_smcr(1)
