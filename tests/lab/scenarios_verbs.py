"""The device behind SMC-R: the conformance suite on Soft-RoCE, in one guest; and a limit on locked memory,
which only registration at a real device knows."""
from expect import expect, expect_equal, expect_stream
from node import BUILD
from scenario import scenario
from scenarios_interop import Way, both

SECONDS_MAX = 240


@scenario
def verbs_conformance(stage):
    """the verbs device passes the conformance suite on Soft-RoCE"""
    program = BUILD / "tests/conformance/verbs_conformance_test"
    output = stage.a.run([program, "--gtest_color=no"], timeout=SECONDS_MAX)
    expect("[  PASSED  ]" in output and "no RDMA device" not in output, output[-1500:])


# Of three quarters of it a proxy with one worker spends 4 MiB on the messages of all links, which leaves
# rings for a few connections.
LOCKED_BYTES = 5_800_000
CONNECTIONS = 16


def exchange_at_once(way):
    client = way.spawn([["send", 5000, 1], ["shutdown"], ["receive"]],
                       [["receive"], ["send", 5000, 2], ["close"]], "many.",
                       count=CONNECTIONS, at_once=CONNECTIONS)
    results = client.value(240)
    outcomes = {}
    for _ in range(CONNECTIONS):
        event = way.server.event(60)
        outcomes[event["key"]] = event["results"]
    for index, mine in enumerate(results):
        theirs = outcomes[f"many.{index}"]
        expect_stream(mine[0], theirs[0], f"connection {index} to the server")
        expect_stream(theirs[1], mine[2], f"connection {index} to the client")


@both
def locked_memory_spent(stage, role):
    """RLIMIT_MEMLOCK is spent by connections: the next are TCP for that reason, and SMC-R once there is room"""
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
    """RLIMIT_MEMLOCK does not even suffice for the device: TCP for that reason, and fairleadctl says so"""
    way = Way(stage, "client", memlock=65536)
    way.exchange(5000)
    way.proxy.expect_fallback("memlock_limit", "local")
    row = next(row for row in way.proxy.get_json("/devices")["devices"] if row["name"] == "rxe0")
    expect_equal((row["state"], row["detail"]), ("down", "RLIMIT_MEMLOCK"), "the device's row")
