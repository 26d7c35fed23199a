"""An attacker on the RDMA network injects RoCEv2 packets between two proxies; docs/threat-model.md has the figures.

The proxies are on a and b. The attacker sends packets in the name of b to a. It has a raw socket on the wire, which
node b lends it, and nothing of the proxies. Lines that begin with "fabric:" are measurements.
"""
import contextlib
import os
import random
import struct
import sys
from pathlib import Path

import rnics
from exchange import talk_both_ways
from expect import expect, expect_equal, wait_until
from scenario import scenario
from scenarios_links import Pair

sys.path.insert(1, str(Path(__file__).parent / "guest"))

import roce  # noqa: E402  the guests have it in the same way

PEACE = {"smc": {"test_link_interval": 0}}  # no packet between two steps of an attack
SENT_BYTES = 1000
FORGED = b"bytes that the peer has never sent"
FAR_OFFSET = 8000  # in the element, where the connection has not written yet
BEYOND_BYTES = 1 << 30
# DELETE_LINK of version 2: all links, in order, "program". See docs/wire.md.
DELETE_ALL_LINKS = bytes([0x24, 44, 0, 0x60, 0, 0, 3, 0, 0]) + bytes(35)
# Of a CDC.
SEQUENCE_AT, PRODUCER_AT = 2, 12
OTHER_ADDRESS = "10.9.0.3"
NEAR = [-4, -3, -2, -1, 1, 2, 3, 4]
BLIND_PACKETS = int(os.environ.get("LAB_FABRIC_PACKETS", "1500"))
FINAL_PACKETS = 200
PINGS = 5
PSN_GUESSES = roce.PSN_COUNT // 2  # on average
FAST_PACKETS = 10_000_000  # a second, by a fast sender; not measured


@contextlib.contextmanager
def observer(stage):
    """A function that returns what an observer has learned so far, once the RNICs are silent."""
    over = f"/tmp/lab/{stage.name}.sniffed"
    stage.b.run(["rm", "-f", over])
    sniffer = stage.b.spawn("fabric.sniff", until=over)
    sniffer.event()

    def learned():
        stage.b.run(["touch", over])
        return sniffer.value()

    yield learned


class Victims:
    """Two proxies with one connection, which is open and idle, and what an observer has learned of it."""

    def __init__(self, stage):
        self.stage, self.a, self.b = stage, stage.a, stage.b
        self.release, self.enough = f"/tmp/lab/{stage.name}.go", f"/tmp/lab/{stage.name}.enough"
        for node in (self.a, self.b):
            node.run(["rm", "-f", self.release, self.enough])
        with observer(stage) as learned:
            self.server, port = stage.serve(self.a, "tcp")
            self.inbound, entry = stage.inbound(self.a, port, PEACE)
            self.outbound, self.port = stage.outbound(self.b, self.a.address, entry, PEACE)
            self.client = self.b.spawn(
                "traffic.talk", address="127.0.0.1", port=self.port, key="victim.",
                mine=[["send", SENT_BYTES], ["await_file", self.release], ["send", SENT_BYTES, 2], ["ending"]],
                theirs=[["receive", SENT_BYTES], ["text", len(FORGED)], ["await_file", self.enough], ["close"]])
            self.client.event()
            known = learned()
        self.sender, self.target = known[self.b.address], known[self.a.address]["clc"]
        self.psn = self.sender["psn"]  # that a expects next
        self.before = self.counters()

    def counters(self):
        return self.a.call("fabric.counters")

    def counted(self, name):
        """How much a counter of a's RNIC has grown."""
        return self.counters()[name] - self.before[name]

    def links(self, event):
        return self.inbound.metrics().value("fairlead_link_events_total", event=event)

    def cdc(self, result):
        return self.inbound.metrics().value("fairlead_cdc_messages_total", result=result)

    def packet(self, opcode, psn, payload, **fields):
        return {"source": self.b.address, "target": self.a.address, "opcode": opcode, "psn": psn,
                "queue_pair": self.sender["queue_pair"], "payload": payload.hex(), **fields}

    def write(self, psn, offset, payload, key=None, **fields):
        """A write into the element of a."""
        reth = [self.target["element"] + offset, self.target["key"] if key is None else key, len(payload)]
        return self.packet(roce.WRITE_ONLY, psn, payload, reth=reth, **fields)

    def write_with_wrong_key(self, psn):
        return self.write(psn, FAR_OFFSET, b"w", key=self.target["key"] ^ 1)

    def produced(self):
        """Where the next byte of b comes in the element of a."""
        return struct.unpack_from("!I", bytes.fromhex(self.sender["cdc"]), PRODUCER_AT)[0]

    def message(self, psn, more):
        """The next CDC of b. It says that b has written `more` bytes."""
        message = bytearray.fromhex(self.sender["cdc"])
        (sequence,) = struct.unpack_from("!H", message, SEQUENCE_AT)
        struct.pack_into("!H", message, SEQUENCE_AT, (sequence + 1) & 0xffff)
        struct.pack_into("!I", message, PRODUCER_AT, self.produced() + more)
        return self.packet(roce.SEND_ONLY, psn, bytes(message), solicited=True)

    def inject(self, *packets):
        self.b.call("fabric.inject", macs=self.sender["macs"], packets=packets)

    def sweep(self, packet, first, count):
        """Packets a second."""
        return self.b.call("fabric.sweep", macs=self.sender["macs"], packet=packet, first=first % roce.PSN_COUNT,
                           count=count, timeout=3600)

    def wait_memory(self, offset, wanted, what):
        """For bytes of the element."""
        pid = int(self.a.run(["pgrep", "-f", f"/{self.inbound.name}.yaml"]).split()[0])
        wait_until(lambda: bytes.fromhex(self.a.call("fabric.peek", pid=pid, address=self.target["element"] + offset,
                                                     count=len(wanted))) == wanted, what)

    def let_go(self):
        """The client's end goes on."""
        self.b.run(["touch", self.release])

    def results(self):
        """Of the server's end, which closes."""
        self.a.run(["touch", self.enough])
        return self.stage.outcome(self.server, "victim.0")

    def talk(self):
        """Another connection, over SMC-R like the first."""
        talk_both_ways(self.stage, self.b, self.server, "127.0.0.1", self.port)
        self.inbound.expect_smcr(at_least=2)


@scenario
def fabric_injected_data(stage):
    """all sniffed: one packet changes a byte in a ring, two give the application forged bytes; near misses do nothing"""
    victims = Victims(stage)
    psn, at = victims.psn, FAR_OFFSET
    # Had one of these been taken, the last one would be a repetition, and change nothing.
    victims.inject(victims.write(psn, at, b"o", source=OTHER_ADDRESS),
                   *(victims.write(psn + distance, at, b"n") for distance in NEAR),
                   victims.write(psn, at, b"w"))
    victims.wait_memory(at, b"w", "the forged byte")
    repeated, ahead = victims.counted("duplicate_request"), victims.counted("out_of_seq_request")
    expect_equal(repeated, len([distance for distance in NEAR if distance < 0]), "repetitions that the RNIC counted")
    expect(ahead >= 1, "no number ahead was counted")
    stage.say(f"fabric: byte in a ring, all sniffed: 1 packet. Taken of {len(NEAR)} other numbers around the right one: 0 "
              f"(duplicate_request +{repeated}, out_of_seq_request +{ahead}). Taken from another IP address: 0 of 1")
    victims.inject(victims.write(psn + 1, victims.produced(), FORGED), victims.message(psn + 2, len(FORGED)))
    victims.let_go()
    # The RNIC takes the next packets of the peer, a write and its CDC, for repetitions.
    wait_until(lambda: victims.counted("duplicate_request") >= repeated + 2, "the peer's own packets to be dropped")
    expect_equal(victims.results()[1], FORGED.decode(), "what the application received")
    expect_equal([victims.cdc("rejected"), victims.links("failed")], [0, 0], "rejected CDC, lost links")
    dropped = victims.counted("duplicate_request") - repeated
    stage.say(f"fabric: {len(FORGED)} forged bytes at the application, all sniffed: 2 packets. CDC rejected: 0, links "
              f"lost: 0. Afterwards packets of the peer are dropped (duplicate_request +{dropped})")


@scenario
def fabric_injected_cursor(stage):
    """an impossible CDC resets its connection, is counted and logged, and leaves the link to others"""
    victims = Victims(stage)
    victims.inject(victims.message(victims.psn, BEYOND_BYTES))
    wait_until(lambda: victims.cdc("rejected") == 1, "the CDC to be rejected")
    victims.let_go()
    expect_equal(victims.results()[1], "ConnectionResetError", "the connection's end")
    expect('event=violation' in victims.inbound.log(), "the log does not say why")
    victims.talk()
    expect_equal(victims.links("failed"), 0, "lost links")
    stage.say("fabric: impossible CDC, all sniffed: 1 packet. Connections reset: 1, links lost: 0")


@scenario
def fabric_injected_llc(stage):
    """a forged DELETE_LINK ends a link group, as the peer itself may; the next connection makes another one"""
    victims = Victims(stage)
    victims.inject(victims.packet(roce.SEND_ONLY, victims.psn, DELETE_ALL_LINKS, solicited=True))
    wait_until(lambda: 'why="the peer deleted the link group"' in victims.inbound.log(), "the group to end")
    expect_equal(victims.results()[1], "ConnectionResetError", "the connection's end")
    victims.let_go()
    victims.client.value()
    victims.talk()
    stage.say("fabric: end of a link group by a forged DELETE_LINK, all sniffed: 1 packet. Connections reset: 1")


@scenario
def fabric_injected_blindly(stage):
    """numbers of a known queue pair are guessed with a wrong key: others do nothing, the right one ends the link"""
    victims = Victims(stage)
    packet = victims.write_with_wrong_key(0)
    # Not among those: the right one, and those that the last sweep tries.
    first = victims.psn + random.randrange(1, roce.PSN_COUNT - BLIND_PACKETS - FINAL_PACKETS)
    rate = victims.sweep(packet, first, BLIND_PACKETS)
    wait_until(lambda: victims.counted("rcvd_pkts") >= BLIND_PACKETS, "the packets to arrive")
    expect_equal(victims.links("failed"), 0, "lost links")
    counted = {name: victims.counted(name) for name in ("duplicate_request", "out_of_seq_request")}
    expect(sum(counted.values()) >= 1, "the RNIC has counted none of the guesses")
    victims.sweep(packet, victims.psn - FINAL_PACKETS, FINAL_PACKETS + 1)
    wait_until(lambda: victims.links("refused") == 1, "the link to be lost")
    expect_equal(victims.links("failed"), 1, "lost links")
    expect('why="the queue pair has refused a packet"' in victims.inbound.log(), "the log does not say why")
    expect_equal(victims.results()[1], "ConnectionResetError", "the connection's end")
    victims.let_go()
    victims.client.value()
    victims.talk()
    stage.say(f"fabric: end of a link, address and queue pair known, number guessed: no hit in {BLIND_PACKETS} packets "
              f"({rate:.0f}/s here; {counted}); a sweep ends it at the right number. "
              f"Expected: 2^24/2 = {PSN_GUESSES} packets, {PSN_GUESSES / FAST_PACKETS:.1f} s at {FAST_PACKETS}/s")
    stage.say(f"fabric: queue pair {victims.sender['queue_pair']:#x}, key {victims.target['key']:#x}, "
              f"number {victims.psn:#x}")


@scenario
def fabric_injected_end_of_one_of_two(stage):
    """with two links a group, the one that an injected packet ends costs no connection"""
    release = f"/tmp/lab/{stage.name}.go"
    stage.a.run(["rm", "-f", release])
    with rnics.in_use(stage):
        pair = Pair(stage, "proxies")
        with observer(stage) as learned:
            client = stage.a.spawn("traffic.talk", address=pair.address, port=pair.port, theirs=[["echo"]],
                                   mine=[["ping", PINGS, 100], ["await_file", release], ["ping", PINGS, 1000]])
            client.event()
            pair.wait_links("symmetric")
            # Of the link that carries the connection.
            wait_for_pings(pair)
            known = learned()
        source, link = next((source, host) for source, host in known.items()
                            if host.get("target", "").endswith("1") and "cdc" in host)
        victim = pair.proxies[0]
        stage.b.call("fabric.inject", macs=link["macs"], packets=[
            {"source": source, "target": link["target"], "opcode": roce.WRITE_ONLY, "queue_pair": link["queue_pair"],
             "psn": link["psn"], "payload": b"w".hex(), "reth": [0, 0, 1]}])
        wait_until(lambda: victim.metrics().value("fairlead_link_events_total", event="refused") == 1,
                   "the link to be lost")
        stage.a.run(["touch", release])
        results = client.value()[0]
        expect(all(isinstance(result, list) for result in (results[0], results[2])), f"the connection ended: {results}")
        pair.expect_moved()
    stage.say("fabric: end of one link of two: connections moved: 1, reset: 0")


def wait_for_pings(pair):
    def received():
        return pair.proxies[1].metrics().value("fairlead_cdc_messages_total", result="received") >= PINGS

    wait_until(received, "the first pings")
