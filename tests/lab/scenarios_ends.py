"""One side vanishes, by force or in order: the effect on the other side, and its delay."""
from expect import expect, wait_until
from scenario import scenario
from scenarios_interop import Way

PROBE = 5  # seconds without a message before a link is tested, on either side
ANSWER = 2  # the kernel's limit for an answer


def begin(stage, role, **options):
    """A connection on which both sides wait for its end: [way, the client's process]"""
    stage.kernels["b"].test_links_every(PROBE)
    way = Way(stage, role, options)
    client = way.spawn([["hold"]], [["hold"]], "held.")
    client.event(30)
    wait_until(lambda: way.proxy.metrics().connections("smcr") == 1, "SMC-R")
    return way, client


def seen_by_kernel(way, client, timeout):
    """[how, seconds] of the application on the kernel's side."""
    if way.role == "client":
        return way.stage.outcome(way.server, "held.0", timeout)[0]
    return client.value(timeout)[0][0]


def groups_of_proxy(stage):
    return [group for group in stage.kernels["b"].show()["groups"] if group["connections"]]


@scenario
def killed_proxy(stage):
    """SIGKILL of the proxy: the kernel notices only by its own test of the link"""
    for role in ("client", "server"):
        way, client = begin(stage, role)
        way.proxy.kill()
        how, seconds = seen_by_kernel(way, client, PROBE + ANSWER + 60)
        expect(how == "reset", f"as {role}: the kernel's application saw {how}")
        stage.say(f"    killed as {role}: the kernel's application was reset after {seconds} s")


@scenario
def drained_proxy(stage):
    """SIGTERM: the proxy tells the kernel with DELETE_LINK, and no group is left there"""
    for role in ("client", "server"):
        way, client = begin(stage, role, drain={"timeout": "1s"})
        expect(groups_of_proxy(stage), "the kernel shows no group with a connection")
        way.proxy.terminate()
        how, seconds = seen_by_kernel(way, client, 60)
        expect(how == "reset", f"as {role}: the kernel's application saw {how}")
        wait_until(lambda: not groups_of_proxy(stage), "the kernel to drop the group", PROBE)
        stage.say(f"    drained as {role}: the kernel's application was reset after {seconds} s")


@scenario
def rebooted_kernel(stage):
    """the kernel's host loses its power for a moment: the proxy notices by its own test of the link; otherwise the
    kernel no longer knows its old group, one connection is TCP and the next makes a new group"""
    def options(interval):
        return {"smc": {"test_link_interval": interval, "option_program": "external"}}
    way, client = begin(stage, "client", **options("2s"))
    unaware = Way(stage, "server", options("0s"))
    unaware.exchange(10_000)
    stage.b.power_cycle()
    how, seconds = client.value(90)[0][0]
    expect(how == "reset", f"our application saw {how}")
    stage.say(f"    reset after {seconds} s")
    stage.wait_boot(stage.b)
    unaware.exchange(10_000)
    fallbacks = unaware.proxy.metrics().fallbacks()
    expect(fallbacks == {("sync_error", "peer"): 1}, f"fallbacks: {fallbacks}")
    unaware.exchange(10_000)
    expect(unaware.proxy.metrics().connections("smcr") == 2, "the third connection is not SMC-R")
    again = Way(stage, "client")
    again.exchange(10_000)
    again.expect_smcr(1, 10_000)
