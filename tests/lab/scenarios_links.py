"""Link groups with two links on two RNICs, between proxies and with the kernel. Links are added, lost
under load, and added again, and no byte is lost. Both sides must report the same type of group."""
import contextlib

import rnics
from exchange import talk_both_ways
from expect import expect, expect_equal, expect_stream, wait_until
from kernel_smc import Change
from node import LabError
from scenario import scenarios_by

ASKERS = 4  # two on each link
MESSAGE_BYTES_MAX = 20_000
STEPS_AFTER = 3  # that each connection reports before it counts as carrying data again
SECONDS_TO_ASK = 5
PROBE = 5  # seconds without a message before the kernel tests a link
GAP_SECONDS_MAX = 60  # without data; emulated processors take their time


class Pair:
    """Two sides with two RNICs each, applications beside them: two proxies, or one and the kernel."""

    def __init__(self, stage, role, devices=None):
        """`role`: "proxies", or the role of the proxy on a: "client" or "server". `devices`: words of
        other_devices_proxy."""
        self.stage, self.role = stage, role
        options = rnics.options()
        options["other_devices"] = devices
        self.how = {}
        self.client, self.address = stage.a, "127.0.0.1"
        if role == "proxies":
            self.server, port = stage.serve(stage.b, "tcp")
            other, port = stage.inbound(stage.b, port, options)
            proxy, self.port = stage.outbound(stage.a, stage.b.address, port, options)
            self.proxies = [proxy, other]
        elif role == "client":
            self.server, port = stage.serve(stage.b, "smc")
            proxy, self.port = stage.outbound(stage.a, stage.b.address, port, options)
            self.proxies = [proxy]
        else:
            self.server, port = stage.serve(stage.a, "tcp")
            proxy, self.port = stage.inbound(stage.a, port, options)
            self.proxies = [proxy]
            self.client, self.address = stage.b, stage.a.address
            self.how = {"family": "smc"}
        self.kernel = None if role == "proxies" else Change(stage.kernels["b"])
        self.sides = [rnics.ProxySide(proxy) for proxy in self.proxies]
        if self.kernel:
            self.sides.append(rnics.KernelSide(stage.kernels["b"], stage.b))
        self.connections = 0

    def wait_links(self, kind, node=None, timeout=40):
        """Both sides report it. "asymmetric": the side that shares a port is that of `node`."""
        for side in self.sides:
            where = "" if node is None else "_local" if side.node is node else "_peer"
            rnics.wait_links(side, kind + where, timeout)

    def bring_back(self, node, rnic, kind, poor=None):
        """Waits until the RNIC is up and the groups have that kind again."""
        rnics.up(node, rnic)
        if self.kernel and node is self.stage.b:
            # A kernel requests a link as soon as its port is up. On a busy machine it may not know the port's GID
            # yet. Then it rejects the requested link and never requests it again.
            try:
                return self.wait_links(kind, poor, SECONDS_TO_ASK)
            except LabError:
                rnics.down(node, rnic)
                rnics.up(node, rnic)
        return self.wait_links(kind, poor)

    def talk(self):
        self.connections += 1
        talk_both_ways(self.stage, self.client, self.server, self.address, self.port, **self.how)

    def expect_smcr(self):
        """Every connection so far, as each side reports it."""
        for proxy in self.proxies:
            proxy.expect_smcr(self.connections)
        if self.kernel:
            counts = self.kernel.look()
            side = "server_v2" if self.role == "client" else "client_v2"
            expect_equal(counts[side], self.connections, f"SMC-R connections of the kernel ({side})")
            expect_equal(counts["reasons"], {}, "fallbacks of the kernel")

    def expect_moved(self):
        """Connections went to another link, and none was reset."""
        for proxy in self.proxies:
            metrics = proxy.metrics()
            expect_equal(metrics.value("fairlead_connections_reset_total"), 0,
                         f"resets of {proxy.name}")
            expect(metrics.value("fairlead_connections_moved_total") > 0,
                   f"{proxy.name} moved no connection")


class Load:
    """Connections that ask and check the answers, and one that sends a stream, until stop()."""

    def __init__(self, pair):
        self.pair, self.stage = pair, pair.stage
        self.stage.counter += 1
        self.received = None
        self.key = f"load{self.stage.counter}."
        self.path = f"/tmp/lab/{self.key}stop"
        self.askers = [self.spawn(f"ask{index}.", [["ask_until", self.path, MESSAGE_BYTES_MAX, index],
                                                   ["shutdown"], ["receive"]], [["echo"], ["close"]])
                       for index in range(ASKERS)]
        self.sender = self.spawn("send.", [["send_until", self.path], ["shutdown"], ["receive"]],
                                 [["receive"], ["close"]])

    def spawn(self, key, mine, theirs):
        pair = self.pair
        process = pair.client.spawn("traffic.talk", address=pair.address, port=pair.port, mine=mine,
                                    theirs=theirs, key=self.key + key, **pair.how)
        expect_equal(process.event(30), {"connected": 1}, f"{key} of the load")
        pair.connections += 1
        return process

    def wait_progress(self):
        """Waits until every asker has had new answers."""
        for asker in self.askers:
            asker.forget_events()
        for asker in self.askers:
            for _ in range(STEPS_AFTER):
                asker.event(60)

    @contextlib.contextmanager
    def at_rest(self):
        """No connection has data in flight."""
        node, path = self.pair.client, f"{self.path}.rest"
        node.write(path, "")
        try:
            for process in [*self.askers, self.sender]:
                while "resting" not in process.event(60):
                    pass
            wait_until(self.quiet, "the last bytes to arrive", 60)
            yield
        finally:
            node.run(["rm", path])

    def cut(self, node):
        """The state in which an RNIC of that node may be lost: under load, or at rest if the kernel is at the other
        end. The kernel requests seven retries, which Soft-RoCE treats as unlimited. A message to a lost RNIC then
        blocks the kernel's failover."""
        at_kernels_peer = self.pair.kernel and node is self.stage.a
        return self.at_rest() if at_kernels_peer else contextlib.nullcontext()

    def quiet(self):
        """Nothing was received between two checks."""
        before, self.received = self.received, [
            proxy.metrics().value("fairlead_cdc_messages_total") for proxy in self.pair.proxies]
        return before == self.received

    def stop(self):
        """All bytes have arrived unchanged, and no connection paused for long."""
        self.pair.client.write(self.path, "")
        for asker in self.askers:
            asked, _, end = asker.value(60)[0]
            expect(isinstance(asked, list), f"{asker}: asking ended in {asked}")
            expect_equal(end[0], 0, "bytes after the last answer")
            expect(asked[1] < GAP_SECONDS_MAX, f"a connection stood still for {asked[1]} s")
        sent = self.sender.value(60)[0]
        expect_stream(sent[0], self.stage.outcome(self.pair.server, f"{self.key}send.0")[0],
                      "the stream")


# Two proxies; the proxy as server and as client of the kernel.
all_roles = scenarios_by({"proxies": "of_proxies", "server": "from_kernel", "client": "to_kernel"})


@all_roles
def two_links(stage, role):
    """two RNICs each: either RNIC of either side is lost under load and comes back, nothing is lost"""
    lose_each(stage, role)


@all_roles
def two_links_with_own_receive_queues(stage, role):
    """the same, with a receive queue for each link"""
    lose_each(stage, role, "own_queues")


def lose_each(stage, role, devices=None):
    with rnics.in_use(stage):
        pair = Pair(stage, role, devices)
        load = Load(pair)
        pair.wait_links("symmetric")
        for node in (stage.a, stage.b):
            for rnic in rnics.NAMES:
                with load.cut(node):
                    rnics.down(node, rnic)
                    pair.wait_links("asymmetric", node)
                load.wait_progress()
                pair.bring_back(node, rnic, "symmetric")
                load.wait_progress()
        load.stop()
        pair.talk()
        pair.expect_smcr()
        pair.expect_moved()


@all_roles
def one_rnic(stage, role):
    """one RNIC on one side, two on the other: each of the two is lost under load and comes back"""
    for poor, rich in ((stage.a, stage.b), (stage.b, stage.a)):
        with rnics.in_use(stage, {poor.name: rnics.NAMES[:1]}):
            pair = Pair(stage, role)
            load = Load(pair)
            pair.wait_links("asymmetric", poor)
            for rnic in rnics.NAMES:
                with load.cut(rich):
                    rnics.down(rich, rnic)
                    pair.wait_links("single")
                load.wait_progress()
                pair.bring_back(rich, rnic, "asymmetric", poor)
                load.wait_progress()
            load.stop()
            pair.expect_smcr()
            pair.expect_moved()
            stage.finish()


@all_roles
def both_rnics(stage, role):
    """both RNICs of a side are lost: applications are reset, new connections are TCP; back, they are SMC-R"""
    for loser in (stage.b, stage.a):
        # A kernel server moves the connection before it gives up the group, and sends a message about that over a
        # link that has failed too. Soft-RoCE repeats the message without end, and the kernel resets no connection
        # before it is acknowledged. It hangs in smc_cdc_wait_pend_tx_wr(), so its own test of the link must not run
        # in time. For half a minute after that it adds no link to other groups, so this runs last.
        kernel_hangs = role == "client" and loser is stage.a
        if not kernel_hangs:
            stage.kernels["b"].test_links_every(PROBE)
        with rnics.in_use(stage):
            lose_both(Pair(stage, role), loser, kernel_hangs)
        stage.finish()


def lose_both(pair, loser, kernel_hangs):
    stage = pair.stage
    pair.talk()
    pair.wait_links("symmetric")
    ends = hold_one(pair)
    pair.expect_smcr()
    for rnic in rnics.NAMES:
        rnics.down(loser, rnic)
    sides = [side for side in pair.sides if side.node is stage.a or not kernel_hangs]
    for side in sides:
        expect_equal(ends[side.node]()[0][0], "reset", f"the held connection's application on {side.node.name}")
    for side in sides:
        wait_until(lambda side=side: not side.groups(), f"{side.name} to give its group up", 60)
    losers = [proxy for proxy in pair.proxies if proxy.node is loser]
    for proxy in losers:
        wait_ports(proxy, "down")
    talk_both_ways(stage, pair.client, pair.server, pair.address, pair.port, **pair.how)
    for proxy in pair.proxies:
        why = ("rnic_port_down", "local") if proxy in losers else (no_rnic_of(pair.kernel, pair.role), "peer")
        expect_equal(list(proxy.metrics().fallbacks()), [why], f"fallbacks of {proxy.name}")
    for rnic in rnics.NAMES:
        rnics.up(loser, rnic)
    for proxy in losers:
        wait_ports(proxy, "active")
    before = pair.proxies[0].metrics().connections("smcr")
    talk_both_ways(stage, pair.client, pair.server, pair.address, pair.port, **pair.how)
    expect_equal(pair.proxies[0].metrics().connections("smcr"), before + 1, "SMC-R connections")
    rnics.wait_links(pair.sides[0], "symmetric")


def hold_one(pair):
    """An idle open connection; for each node a function that waits for its end and returns the kind."""
    key = "held."
    process = pair.client.spawn("traffic.talk", address=pair.address, port=pair.port, key=key,
                                mine=[["hold"]], theirs=[["hold"]], **pair.how)
    expect_equal(process.event(30), {"connected": 1}, "the connection that is held")
    pair.connections += 1
    return {pair.client: lambda: process.value(60)[0],
            pair.server.node: lambda: pair.stage.outcome(pair.server, f"{key}0")}


def no_rnic_of(kernel, role):
    """The reason that a side without an RNIC gives. Linux as client proposes no SMC-R; as server it names the
    reason."""
    return "no_device" if kernel and role == "server" else "no_rdma_device"


def wait_ports(proxy, state):
    def all_are():
        return {row["state"] for row in proxy.get_json("/devices")["devices"]} == {state}
    wait_until(all_are, f"the ports of {proxy.name} to be {state}")
