"""A proxy with an RNIC is replaced by another process. Its connections leave their queue pairs for their TCP connections, go
on in the next process, and come back to the RNIC there. A kernel at the other end gets an orderly end."""
import json

from exchange import talk_both_ways
from expect import expect, expect_equal, wait_until
from guest_proxy import PROXY, static
from scenario import scenario
from scenarios_links import ASKERS, Load

CTL = PROXY.parent / "ctl/fairleadctl"
KEEPER = "fairlead-keeper-kernel"
CONNECTIONS = ASKERS + 1
HAND_OVERS = 4
PAUSE_MS_MAX = 20_000  # emulated processors take their time


def options(keeper):
    return {"hand_over": {"socket": f"@{keeper}"}, "smc": {"option_program": "external", "defer_bytes": "1KiB"}}


def hand_over(node, keeper, old, start_next):
    """[the next proxy, what fairleadctl says]"""
    ctl = node.start([CTL, "-o", "json", "hand-over", "--keeper-socket", f"@{keeper}"])
    expect_equal(old.process.wait(60), 0, f"the exit code of {old.name}")
    made = start_next()
    expect_equal(ctl.wait(60), 0, f"fairleadctl hand-over: {ctl.complaint()}")
    return made, json.loads(ctl.output[ctl.output.index("{"):])  # behind what it says on its way


class ReplaceablePair:
    """Two proxies, one after the other of which can be replaced, with applications beside them."""

    kernel, how, address = None, {}, "127.0.0.1"

    def __init__(self, stage):
        self.stage, self.client, self.connections = stage, stage.a, 0
        self.server, upstream = stage.serve(stage.b, "tcp")
        self.places = {}
        inbound = self.start("server", stage.b, ("in", "inbound", f"127.0.0.1:{upstream}"), f"{stage.b.address}:0")
        far = f"{stage.b.address}:{inbound.ports['in']}"
        outbound = self.start("client", stage.a, ("out", "outbound", far), "127.0.0.1:0")
        self.port = outbound.ports["out"]
        self.proxies = [outbound, inbound]

    def start(self, side, node, listener, listen):
        proxy = self.stage.proxy(node, [static(*listener, listen)], options(f"fairlead-keeper-{side}"))
        host = listen.rpartition(":")[0]
        self.places[side] = (node, listener, f"{host}:{proxy.ports[listener[0]]}")
        return proxy

    def replace(self, side):
        node, listener, listen = self.places[side]
        at = 0 if side == "client" else 1
        made, said = hand_over(node, f"fairlead-keeper-{side}", self.proxies[at],
                               lambda: self.start(side, node, listener, listen))
        self.proxies[at] = made
        return made, said

    def wait_carried(self):
        """All connections are on the RNIC."""
        for proxy in self.proxies:
            wait_until(lambda proxy=proxy: proxy.metrics().value("fairlead_connections_active", transport="smcr") == CONNECTIONS,
                       f"all connections of {proxy.name} to be SMC-R", 60)


@scenario
def replaced_proxies(stage):
    """both proxies are replaced under load, one after the other: no connection ends, and all are SMC-R again"""
    pair = ReplaceablePair(stage)
    load = Load(pair)
    pair.wait_carried()
    for number in range(HAND_OVERS):
        side = ("client", "server")[number % 2]
        made, said = pair.replace(side)
        metrics = made.metrics()
        expect_equal(metrics.value("fairlead_taken_back_total", result="lost"), 0, f"connections that {made.name} lost")
        pause = next(int(word.partition("=")[2]) for line in made.log().splitlines() if " event=taken_back " in line
                     for word in line.split() if word.startswith("gap_ms="))
        expect(pause < PAUSE_MS_MAX, f"nobody served the connections for {pause} ms")
        stage.say(f"    {side}: {said}, {pause} ms without a proxy")
        load.wait_progress()
        pair.wait_carried()
    load.stop()
    for proxy in pair.proxies:
        expect_equal(proxy.metrics().value("fairlead_connections_reset_total"), 0, f"resets of {proxy.name}")


@scenario
def replaced_beside_a_kernel(stage):
    """the peer is a kernel, which knows no return: its connection ends as in a drain, and the next one is SMC-R again"""
    server, upstream = stage.serve(stage.b, "smc")
    listener = ("out", "outbound", f"{stage.b.address}:{upstream}")
    old = stage.proxy(stage.a, [static(*listener)], options(KEEPER))
    port = old.ports["out"]
    client = stage.a.spawn("traffic.talk", address="127.0.0.1", port=port, mine=[["hold"]], theirs=[["hold"]], key="held.")
    client.event(30)
    wait_until(lambda: old.metrics().connections("smcr") == 1, "SMC-R")
    made, said = hand_over(stage.a, KEEPER, old, lambda: stage.proxy(
        stage.a, [static(*listener, f"127.0.0.1:{port}")], options(KEEPER)))
    how, seconds = stage.outcome(server, "held.0", 60)[0]
    stage.say(f"    {said}; the kernel's application saw {how} after {seconds} s")
    expect_equal(how, "reset", "what the kernel's application saw")
    talk_both_ways(stage, stage.a, server, "127.0.0.1", port)
    made.expect_smcr(1)
