"""The device of SMC-R: the conformance suite on Soft-RoCE, in one guest; the memory that peers cost; and a limit on
locked memory, which applies only to registration at a real device."""
import re

from exchange import both_ways, talk_both_ways
from expect import expect, expect_equal
from node import BUILD
from scenario import scenario
from scenarios_interop import Way, both, collect

SECONDS_MAX = 420
PEERS = 4
# With default settings: a receive ring and a send ring of 256 KiB each, 64 KiB of receive buffers, and the queues.
KIB_A_PEER_MAX = 600


@scenario
def verbs_conformance(stage):
    """the verbs device passes the conformance suite on Soft-RoCE, with shared receive queues and without"""
    program = BUILD / "tests/conformance/verbs_conformance_test"
    output = stage.a.run([program, "--gtest_color=no"], timeout=SECONDS_MAX)
    expect("[  PASSED  ]" in output and "no RDMA device" not in output, output[-1500:])


OWN_QUEUES = {"other_devices": "own_queues"}


@both
def own_receive_queues(stage, role):
    """each link has its own receive queue, as on an RNIC without shared ones: many connections, then a large one"""
    way = Way(stage, role, OWN_QUEUES)
    expect("receive_queue_of=link" in way.proxy.log(), "the RNIC has shared receive queues")
    exchange_at_once(way)
    way.exchange(1_000_000)
    way.expect_smcr(CONNECTIONS + 1, 1_000_000)
    way.proxy.wait_idle()
    way.exchange(5000, seed=3)
    way.expect_smcr(CONNECTIONS + 2)


# Three quarters of it are for rings and messages: rings of 16 KiB for some thirty connections.
LOCKED_BYTES = 1_600_000
CONNECTIONS = 48


def exchange_at_once(way):
    client = way.spawn(*both_ways(5000), "many.", count=CONNECTIONS, at_once=CONNECTIONS)
    collect(way, client, CONNECTIONS)


@both
def locked_memory_spent(stage, role):
    """connections use up RLIMIT_MEMLOCK: the next are TCP for that reason, and SMC-R once there is room"""
    way = Way(stage, role, memlock=LOCKED_BYTES)
    exchange_at_once(way)
    metrics = way.proxy.metrics()
    spent = metrics.fallbacks().pop(("memlock_limit", "local"), 0)
    expect_equal(metrics.fallbacks(), {("memlock_limit", "local"): spent}, "fallbacks")
    expect(spent >= 2, f"only {spent:.0f} connections found the limit spent")
    expect_equal(metrics.connections("smcr"), CONNECTIONS - spent, "SMC-R connections")
    expect(metrics.connections("smcr") >= 2, "the limit has room for two at least")
    expect("reason=memlock_limit code=0x0f000004" in way.proxy.log(), "the log does not say so")
    way.proxy.wait_idle()
    way.exchange(5000)
    expect_equal(way.proxy.metrics().connections("smcr"), CONNECTIONS - spent + 1, "SMC-R afterwards")


@scenario
def locked_memory_too_little(stage):
    """RLIMIT_MEMLOCK does not even suffice for the device: TCP for that reason, and fairleadctl reports it"""
    way = Way(stage, "client", memlock=65536)
    way.exchange(5000)
    way.proxy.expect_fallback("memlock_limit", "local")
    row = next(row for row in way.proxy.get_json("/devices")["devices"] if row["name"] == "rxe0")
    expect_equal((row["state"], row["detail"]), ("down", "RLIMIT_MEMLOCK"), "the device's row")


def pinned_kib(node, proxy):
    """What the kernel holds in memory for the RNIC."""
    pid = node.run(["pgrep", "-f", f"/{proxy.name}.yaml"]).split()[0]
    return int(re.search(r"VmPin:\s+(\d+) kB", node.run(["cat", f"/proc/{pid}/status"])).group(1))


@scenario
def peers_apart(stage):
    """each peer of one proxy has a protection domain with its own receive queue, at a limited cost"""
    server, port = stage.serve(stage.a, "tcp")
    inbound, entry = stage.inbound(stage.a, port)
    pinned = [pinned_kib(stage.a, inbound)]
    for _ in range(PEERS):
        _, out = stage.outbound(stage.b, stage.a.address, entry)
        talk_both_ways(stage, stage.b, server, "127.0.0.1", out)
        pinned.append(pinned_kib(stage.a, inbound))
    inbound.expect_smcr(at_least=PEERS)
    expect_equal(len(inbound.get_json("/linkgroups")["link_groups"]), PEERS, "link groups")
    stage.say(f"pinned for 0 to {PEERS} peers, KiB: {pinned}")
    expect((pinned[-1] - pinned[0]) / PEERS <= KIB_A_PEER_MAX, f"pinned: {pinned} KiB")
