"""Fairlead's traffic in a dissector and on an unreliable network."""
import contextlib
import json
import signal
import subprocess

from exchange import talk_both_ways
from expect import expect, expect_equal, wait_until
from scenario import scenario
from scenarios_interop import Way

CDC = "fe:2c"
DISCARD_PORT = 9


def dissect(path, *arguments):
    done = subprocess.run(["tshark", "-r", path, *arguments], capture_output=True, text=True,
                          timeout=120, check=True)
    return done.stdout


@contextlib.contextmanager
def capture(stage, name):
    """Packets that node b sees, in build/lab/NAME.pcap.

    dumpcap reads packets in blocks, and loses the last block when it is stopped. A datagram at each end of the capture,
    once it is in the file, says that everything between them is there as well.
    """
    b = stage.b
    target = b.folder / f"{name}.pcap"
    target.unlink(missing_ok=True)
    b.run(["rm", "-f", "/tmp/lab/wire.pcap"])  # of an earlier capture
    # Writing directly into the shared folder, it would lose packets.
    dump = b.start(["dumpcap", "-q", "-i", "eth0", "-B", "32", "-w", "/tmp/lab/wire.pcap", "-P"])
    wait_until(lambda: b.run(["/bin/sh", "-c", "test -s /tmp/lab/wire.pcap && echo yes"],
                             check=False).strip() == "yes", "the capture")

    def mark(word):
        def written():
            # dumpcap writes its file only when a further packet comes.
            b.call("traffic.datagram", address=stage.a.address, port=DISCARD_PORT, text=word)
            return int(b.run(["grep", "-ac", word, "/tmp/lab/wire.pcap"], check=False)) > 0

        wait_until(written, f"the datagram {word} in the capture")

    try:
        mark("fairlead-capture-begin")
        yield target
        mark("fairlead-capture-end")
    finally:
        dump.send_signal(signal.SIGINT)
        dump.wait(30)
        b.run(["cp", "/tmp/lab/wire.pcap", f"/tmp/results/{name}.pcap"])


@scenario
def dissected(stage):
    """tshark finds every CLC and CDC message of Fairlead well-formed, and the lengths are right"""
    with capture(stage, "dissected") as path:
        for role in ("client", "server"):
            way = Way(stage, role)
            for seed in (1, 3):
                way.exchange(60_000, seed)
            way.expect_smcr(2, 120_000)
            way.proxy.wait_idle()
    frames = json.loads(dissect(path, "-Y", "smc && tcp", "-T", "json", "-e", "frame.number",
                                "-e", "_ws.malformed", "-e", "_ws.col.Info"))
    expect(len(frames) >= 12, f"tshark sees only {len(frames)} segments with CLC")
    broken = [frame for frame in frames if "_ws.malformed" in frame["_source"]["layers"]]
    expect_equal(broken, [], "malformed CLC")
    messages = json.loads(dissect(path, "-Y", "smc && infiniband", "-T", "json",
                                  "-e", "_ws.malformed", "-e", "_ws.col.Info"))
    infos = [(frame["_source"]["layers"].get("_ws.col.Info", [""])[0],
              "_ws.malformed" in frame["_source"]["layers"]) for frame in messages]
    data = [entry for entry in infos if "CDC" in entry[0]]
    expect(len(data) >= 8, f"tshark sees only {len(data)} CDC messages: {infos[:5]}")
    expect_equal([entry for entry in data if entry[1]], [], "malformed CDC")


TRAFFIC_CLASS = 106
# UDP, BTH, RETH, ICRC, padding.
HEADERS_BYTES_MAX = 64


@scenario
def traffic_class(stage):
    """the traffic class of the configuration is on the wire, and each side sets that of its own packets"""
    server, port = stage.serve(stage.a, "tcp")
    inbound, entry = stage.inbound(stage.a, port)
    _, out = stage.outbound(stage.b, stage.a.address, entry, {"smc": {"traffic_class": TRAFFIC_CLASS, "path_mtu": 512}})
    with capture(stage, "traffic_class") as path:
        talk_both_ways(stage, stage.b, server, "127.0.0.1", out)
        inbound.expect_smcr(at_least=1)
    fields = dissect(path, "-Y", "udp.dstport == 4791", "-T", "fields", "-e", "ip.src", "-e", "ip.dsfield",
                     "-e", "udp.length").split("\n")
    packets = [line.split("\t") for line in fields if line]
    classes = {address: {int(word, 0) for source, word, _ in packets if source == address}
               for address in (stage.a.address, stage.b.address)}
    expect_equal(classes, {stage.a.address: {0}, stage.b.address: {TRAFFIC_CLASS}}, "traffic classes")
    longest = max(int(length) for _, _, length in packets)
    expect(longest <= 512 + HEADERS_BYTES_MAX, f"a packet of {longest} bytes in spite of a path MTU of 512")


@contextlib.contextmanager
def bad_wire(stage, *words):
    nodes = (stage.a, stage.b)
    for node in nodes:
        node.run(["tc", "qdisc", "add", "dev", "eth0", "root", "netem", *words])
    try:
        yield
    finally:
        for node in nodes:
            node.run(["tc", "qdisc", "delete", "dev", "eth0", "root"])


def survive(stage, *words):
    for role in ("client", "server"):
        with bad_wire(stage, *words):
            way = Way(stage, role)
            way.exchange(1_000_000)
            way.exchange(1_000_000, seed=3)
            way.expect_smcr(2, 2_000_000)
            expect_equal(way.proxy.metrics().value("fairlead_connections_reset_total"), 0, "resets")


@scenario
def one_percent_lost(stage):
    """1 % of all packets lost, both ways: no data lost, no reset"""
    survive(stage, "loss", "1%")


@scenario
def late_and_out_of_order(stage):
    """2 ms of delay, and every tenth packet overtaken"""
    survive(stage, "delay", "2ms", "reorder", "90%", "50%")
