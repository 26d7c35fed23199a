"""The proxy and the kernel's SMC, each as client and as server, over Soft-RoCE. Every scenario has two
directions. Both sides must report that the bytes used SMC-R, and the bytes must be equal."""
from exchange import both_ways, expect_both_ways
from expect import expect, expect_equal, expect_stream, wait_until
from kernel_smc import Change
from scenario import scenarios_by

KIB = 1024
BULK_BYTES = 100_000_000
CONNECTIONS = 300  # more than the 255 of one link group


class Way:
    """One direction: applications beside a proxy on a, the kernel's SMC on b."""

    def __init__(self, stage, role, options=None, kernel_buffers=None, **how):
        """`role` is the proxy's: "client" or "server"; `how` its process is started."""
        self.stage, self.role = stage, role
        self.kernel = Change(stage.kernels["b"])
        self.how = {}
        if role == "client":
            self.server, port = stage.serve(stage.b, "smc", buffers=kernel_buffers)
            self.proxy, self.port = stage.outbound(stage.a, stage.b.address, port, options, **how)
            self.node, self.address = stage.a, "127.0.0.1"
        else:
            self.server, port = stage.serve(stage.a, "tcp")
            self.proxy, self.port = stage.inbound(stage.a, port, options, **how)
            self.node, self.address = stage.b, stage.a.address
            self.how = {"family": "smc", "buffers": kernel_buffers}

    def talk(self, mine, theirs, **how):
        return self.stage.talk(self.node, self.server, self.address, self.port, mine, theirs,
                               **{**self.how, **how})

    def spawn(self, mine, theirs, key, **how):
        return self.node.spawn("traffic.talk", address=self.address, port=self.port, mine=mine,
                               theirs=theirs, key=key, **{**self.how, **how})

    def exchange(self, count, seed=1):
        expect_both_ways(*self.talk(*both_ways(count, seed)))

    def expect_smcr(self, connections, at_least_bytes=0, version=2):
        """Checks on both sides: this many connections, no fallback, and the bytes by SMC-R."""
        metrics = self.proxy.expect_smcr(connections)
        expect_equal(metrics.connections("smcr"), connections, "SMC-R connections of the proxy")
        counts = self.kernel.look()
        side = ("server" if self.role == "client" else "client") + f"_v{version}"
        expect_equal(counts[side], connections, f"SMC-R connections of the kernel ({side})")
        expect_equal(counts["reasons"], {}, "fallbacks of the kernel")
        for name in ("sent_bytes", "received_bytes"):
            expect(counts[name] >= at_least_bytes, f"kernel: only {counts[name]} {name} by SMC-R")
        return counts


both = scenarios_by({"client": "as_client", "server": "as_server"})


def collect(way, client, count):
    """Results of `count` connections that were begun at once, as "many.", both ways."""
    results = client.value(240)
    outcomes = {}
    for _ in range(count):
        event = way.server.event(60)
        outcomes[event["key"]] = event["results"]
    for index, mine in enumerate(results):
        expect_both_ways(mine, outcomes[f"many.{index}"], f"connection {index} ")


@both
def first_contact(stage, role):
    """first contact, then a second connection on the same group"""
    way = Way(stage, role)
    way.exchange(100_000)
    way.exchange(50_000, seed=3)
    way.expect_smcr(2, 150_000)
    groups = way.proxy.get_json("/linkgroups")["link_groups"]
    expect_equal(len(groups), 1, "link groups of the proxy")
    kernel_groups = [group for group in stage.kernels["b"].show()["groups"]
                     if group["v2"]["peer_host"].startswith("node1")]
    expect(kernel_groups, "the kernel shows no link group with node1")


@both
def three_hundred_connections(stage, role):
    """300 connections at once: a second group, then all closed, memory freed, and the groups used again"""
    # A kernel server makes its handshakes one after another, with a timeout of 6 s each. The proxy, which gets all
    # connections at once, limits concurrent ones. A kernel client has to do the same itself.
    way = Way(stage, role, {"smc": {"handshake_timeout": "60s", "option_program": "external"},
                            "buffers": {"idle_timeout": "1s"}})
    client = way.spawn(*both_ways(1000), "many.", count=CONNECTIONS, at_once=CONNECTIONS, queue=role == "server")
    client.event(240)
    groups = way.proxy.get_json("/linkgroups")["link_groups"]
    collect(way, client, CONNECTIONS)
    expect_equal(len(groups), 2, "link groups of the proxy")
    way.proxy.wait_idle()
    wait_until(lambda: way.proxy.metrics().value("fairlead_slabs_returned_total") > 0,
               "the kernel to answer DELETE_RKEY, and an empty slab to go back")
    way.exchange(1000)
    way.expect_smcr(CONNECTIONS + 1)
    expect_equal(len(way.proxy.get_json("/linkgroups")["link_groups"]), 2, "groups after reuse")


@both
def half_close(stage, role):
    """the end of one direction leaves the other open, whichever side ends first"""
    way = Way(stage, role)
    mine, theirs = way.talk([["send", 20_000, 1], ["receive", 20_000], ["shutdown"], ["receive"]],
                            [["receive", 20_000], ["send", 20_000, 2], ["receive"],
                             ["send", 200_000, 3], ["close"]])
    expect_stream(theirs[3], mine[3], "after the client's end")
    mine, theirs = way.talk([["receive", 20_000], ["receive"], ["send", 200_000, 4], ["shutdown"]],
                            [["send", 20_000, 5], ["shutdown"], ["receive"], ["close"]])
    expect_stream(mine[2], theirs[2], "after the server's end")
    way.expect_smcr(2)
    way.proxy.wait_idle()


@both
def abort(stage, role):
    """a reset of either application reaches the other"""
    way = Way(stage, role)
    mine, theirs = way.talk([["send", 1000, 1], ["receive", 1000], ["reset"]],
                            [["receive", 1000], ["send", 2000, 2], ["ending"]])
    expect_equal(theirs[2], "reset", "what the server saw")
    # A reset discards unread data, so the server resets after its bytes were read.
    mine, theirs = way.talk([["send", 1000, 1], ["receive", 1000], ["send", 1000, 3], ["ending"]],
                            [["receive", 1000], ["send", 1000, 2], ["wait_input"], ["reset"]])
    expect_equal(mine[3], "reset", "what the client saw")
    way.expect_smcr(2)
    way.proxy.wait_idle()


@both
def bulk(stage, role):
    """100 MB each way"""
    way = Way(stage, role, kernel_buffers=(1024 * KIB, 1024 * KIB))
    expect_both_ways(*way.talk(*both_ways(BULK_BYTES), timeout=300))
    way.expect_smcr(1, BULK_BYTES)


def hear(inline):
    """Starts the receiver of urgent bytes, and then the sender. Linux applies the socket options that are set when an
    urgent byte arrives."""
    return [["inline"] if inline else ["pause", 0], ["send", 1, 3]]


def send_urgent(way, kernel_speaks, inline):
    """Three urgent bytes: behind data, alone, and with the FIN behind it. Each arrives as urgent data."""
    speaker = [["receive", 1], ["send", 5000, 1], ["urgent", 33], ["receive", 1], ["urgent", 34], ["receive", 1],
               ["send", 50_000, 2], ["urgent", 35], ["shutdown"], ["receive"]]
    fetch = ["marked"] if inline else ["out_of_band"]
    hearer = hear(inline)
    hearer += [["receive", 5000], fetch, ["send", 1, 3], fetch, ["send", 1, 3], ["receive", 50_000], fetch,
               ["receive"], ["close"]]
    kernel_is_client = way.role == "server"
    first, second = (speaker, hearer) if kernel_speaks == kernel_is_client else (hearer, speaker)
    results = way.talk(first, second)
    spoken, heard = results if first is speaker else reversed(results)
    expect_stream(spoken[1], heard[2], "before the first urgent byte")
    expect_stream(spoken[6], heard[7], "before the last urgent byte")
    for place, byte in ((3, 33), (5, 34), (8, 35)):
        expect_equal(heard[place], [True, byte] if inline else byte, f"urgent byte {byte}")
    expect_equal(heard[9][0], 0, "bytes behind the last urgent one")


@both
def urgent_data(stage, role):
    """urgent bytes of either side arrive as urgent data, in line or out of band"""
    way = Way(stage, role)
    send_urgent(way, kernel_speaks=True, inline=True)
    send_urgent(way, kernel_speaks=True, inline=False)
    # Out of band, an SMC socket of Linux forgets the byte when the data in front of it has been read.
    send_urgent(way, kernel_speaks=False, inline=True)
    way.expect_smcr(3)


@both
def urgent_data_and_more(stage, role):
    """a stream continues after an urgent byte that the reader does not request"""
    way = Way(stage, role)
    speaker = [["receive", 1], ["send", 5000, 1], ["urgent", 33], ["send", 50_000, 2], ["shutdown"], ["receive"]]
    for first_is_speaker in (True, False):
        # Linux skips an urgent byte in recv(2) only, not in poll(2). A reader that polls would wait for data that its
        # peer may not send before that.
        kernel_hears = first_is_speaker == (role == "client")
        for inline in (True,) if kernel_hears else (True, False):
            hearer = [*hear(inline), ["receive", 5000], ["receive"], ["close"]]
            results = way.talk(*((speaker, hearer) if first_is_speaker else (hearer, speaker)))
            spoken, heard = results if first_is_speaker else reversed(results)
            expect_stream(spoken[1], heard[2], "before the urgent byte")
            expect_equal(heard[3][0], 50_001 if inline else 50_000, "bytes from the urgent one on")
    way.expect_smcr(3)


@both
def buffer_sizes(stage, role):
    """buffers of 16 KiB to 1 MiB on either side"""
    for ours, theirs in ((16, 1024), (1024, 16)):
        size = f"{ours}KiB"
        way = Way(stage, role, {"buffers": {"size": size, "publish": f"{min(ours, 128)}KiB"}},
                  kernel_buffers=(theirs * KIB, theirs * KIB))
        way.exchange(400_000)
        way.expect_smcr(1, 400_000)


@both
def slow_reader(stage, role):
    """a slow reader, on either side: the writer is blocked and nothing is lost"""
    way = Way(stage, role, {"buffers": {"size": "64KiB", "publish": "16KiB"}})
    count = 1_000_000
    slowly = ["receive", None, 16 * KIB, 0.01]
    mine, theirs = way.talk([["send", count, 1], ["shutdown"], ["receive"]],
                            [["pause", 0.5], slowly, ["close"]])
    expect_stream(mine[0], theirs[1], "to a slow server")
    mine, theirs = way.talk([["pause", 0.5], slowly],
                            [["send", count, 2], ["close"]])
    expect_stream(theirs[0], mine[1], "to a slow client")
    counts = way.expect_smcr(2, count)
    expect(counts["full_at_peer"] > 0, "the kernel never found our element full")
    wait_until(lambda: way.proxy.metrics().value("fairlead_buffer_full_total") > 0,
               "the proxy to have found the kernel's element full")
