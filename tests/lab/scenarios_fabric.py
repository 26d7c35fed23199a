"""An attacker on the RDMA network, who injects RoCEv2 packets between two proxies. docs/fabric-attacks.md has the
figures. The proxies are on a and b. The attacker has a raw socket on the wire, which node b lends it, and nothing of
the proxies. It forges packets from b to a."""
import os
import random
import struct
import sys
from pathlib import Path

from expect import expect, expect_equal, wait_until
from scenario import scenario

sys.path.insert(1, str(Path(__file__).parent / "guest"))

import roce  # noqa: E402  the guests have it in the same way

CDC_SEQUENCE, CDC_PRODUCER_OFFSET = 2, 12
OTHER_ADDRESS = "10.9.0.3"
PEACE = {"smc": {"test_link_interval": 0}}  # no packet between two steps of an attack
SENT_BYTES = 1000
FORGED = b"bytes that the peer has never sent"
FAR_OFFSET = 8000  # in the element, where the connection has not written yet
BEYOND_BYTES = 1 << 30
BLIND_PACKETS = int(os.environ.get("LAB_FABRIC_PACKETS", "3000"))
NEAR_PACKETS = 500
PACKETS_A_SECOND = 10_000_000  # a fast sender of small packets; only for the figures that are printed


class Victims:
    """Two proxies with one connection, which is open and idle, and what an observer has learned of it."""

    def __init__(self, stage):
        self.stage, self.a, self.b = stage, stage.a, stage.b
        self.release, sniffed = f"/tmp/lab/{stage.name}.go", f"/tmp/lab/{stage.name}.sniffed"
        self.b.run(["rm", "-f", self.release, sniffed])
        sniffer = self.b.spawn("fabric.sniff", until=sniffed)
        sniffer.event()
        self.server, port = stage.serve(self.a, "tcp")
        self.inbound, entry = stage.inbound(self.a, port, PEACE)
        self.outbound, self.port = stage.outbound(self.b, self.a.address, entry, PEACE)
        self.client = self.b.spawn(
            "traffic.talk", address="127.0.0.1", port=self.port, key="victim.",
            mine=[["send", SENT_BYTES], ["await_file", self.release], ["send", SENT_BYTES, 2], ["ending"]],
            theirs=[["receive", SENT_BYTES], ["receive", len(FORGED)], ["ending"]])
        self.client.event()
        self.b.run(["touch", sniffed])
        self.known = sniffer.value()
        self.macs = [node.call("fabric.mac") for node in (self.b, self.a)]
        self.before = self.counters()
        self.pid = int(self.a.run(["pgrep", "-f", f"/{self.inbound.name}.yaml"]).split()[0])

    @property
    def target(self):
        """What the Accept of a says."""
        return self.known[self.a.address]["clc"]

    @property
    def psn(self):
        """The number that a expects next."""
        return self.known[self.b.address]["psn"]

    def counters(self):
        return self.a.call("fabric.counters")

    def counted(self, name):
        """How much a counter of a's RNIC has grown."""
        return self.counters()[name] - self.before[name]

    def metric(self, name, **labels):
        return self.inbound.metrics().value(name, **labels)

    def packet(self, opcode, psn, payload=b"", **fields):
        return {"source": self.b.address, "target": self.a.address, "opcode": opcode, "psn": psn,
                "queue_pair": self.target["queue_pair"], "payload": payload.hex(), **fields}

    def write(self, psn, offset, payload, key=None, **fields):
        """A write into the element of a."""
        reth = [self.target["element"] + offset, self.target["key"] if key is None else key, len(payload)]
        return self.packet(roce.WRITE_ONLY, psn, payload, reth=reth, **fields)

    def produced(self):
        """Where the next byte of b comes in the element of a."""
        return struct.unpack_from("!I", bytes.fromhex(self.known[self.b.address]["cdc"]), CDC_PRODUCER_OFFSET)[0]

    def message(self, psn, more):
        """The next CDC of b. It says that b has written `more` bytes."""
        last = bytearray.fromhex(self.known[self.b.address]["cdc"])
        (sequence,) = struct.unpack_from("!H", last, CDC_SEQUENCE)
        struct.pack_into("!H", last, CDC_SEQUENCE, sequence + 1)
        struct.pack_into("!I", last, CDC_PRODUCER_OFFSET, self.produced() + more)
        return self.packet(roce.SEND_ONLY, psn, bytes(last), solicited=True)

    def inject(self, *packets):
        self.b.call("fabric.inject", source_mac=self.macs[0], target_mac=self.macs[1], packets=packets)

    def sweep(self, packet, first, count):
        """Packets per second."""
        return self.b.call("fabric.sweep", source_mac=self.macs[0], target_mac=self.macs[1], packet=packet,
                           first=first % roce.PSN_COUNT, count=count, timeout=600)

    def memory(self, offset, count=1):
        """Bytes of the element."""
        return bytes.fromhex(self.a.call("fabric.peek", pid=self.pid, address=self.target["element"] + offset,
                                         count=count))

    def wait_memory(self, offset, wanted, what):
        wait_until(lambda: self.memory(offset, len(wanted)) == wanted, what)


@scenario
def fabric_injected_byte(stage):
    """with everything sniffed one packet changes a byte in a ring; own address or another number change none"""
    victims = Victims(stage)
    psn, at = victims.psn, FAR_OFFSET
    near = [distance for distance in range(-4, 5) if distance]
    # Had one of these been taken, the last one would be a repetition, and change nothing.
    victims.inject(victims.write(psn, at, b"o", source=OTHER_ADDRESS),
                   *(victims.write(psn + distance, at, b"n") for distance in near),
                   victims.write(psn, at, b"w"))
    victims.wait_memory(at, b"w", "the forged byte")
    repeated = victims.counted("duplicate_request")
    expect_equal(repeated, len([distance for distance in near if distance < 0]), "repetitions that the RNIC counted")
    expect(victims.counted("out_of_seq_request") >= 1, "no number ahead was counted")
    stage.say(f"fabric: byte in a ring: 1 packet with address, queue pair, number and key sniffed; numbers accepted of "
              f"{len(near) + 1} around the right one: 1; from another IP address: 0 of 1")


@scenario
def fabric_injected_data(stage):
    """with everything sniffed two packets give the application bytes that its peer has never sent"""
    victims = Victims(stage)
    victims.inject(victims.write(victims.psn, victims.produced(), FORGED),
                   victims.message(victims.psn + 1, len(FORGED)))
    wait_until(lambda: victims.metric("fairlead_cdc_messages_total", result="received") > 2, "the forged CDC")
    victims.b.run(["touch", victims.release])
    results = stage.outcome(victims.server, "victim.0")
    stage.say(f"{results}")


@scenario
def fabric_injected_cursor(stage):
    """an impossible CDC resets its connection, is counted and logged, and leaves the link"""
    victims = Victims(stage)
    victims.inject(victims.message(victims.psn, BEYOND_BYTES))
    wait_until(lambda: victims.metric("fairlead_cdc_messages_total", result="rejected") == 1, "the CDC to be rejected")
    victims.b.run(["touch", victims.release])
    stage.say(f"{stage.outcome(victims.server, 'victim.0')} {victims.client.value()}")


@scenario
def fabric_injected_end(stage):
    """with queue pair and number sniffed, one packet with a wrong key ends the link"""
    victims = Victims(stage)
    victims.inject(victims.write(victims.psn, FAR_OFFSET, b"w", key=victims.target["key"] ^ 1))
    wait_until(lambda: victims.metric("fairlead_link_events_total", event="failed") == 1, "the link to be lost")
    victims.b.run(["touch", victims.release])
    stage.say(f"{stage.outcome(victims.server, 'victim.0')} {victims.client.value()}")


@scenario
def fabric_injected_blindly(stage):
    """guessed numbers of a known queue pair: a bounded number of them has no effect, and the right one ends the link"""
    victims = Victims(stage)
    packet = victims.write(0, FAR_OFFSET, b"w", key=0)
    rate = victims.sweep(packet, victims.psn + random.randrange(1, roce.PSN_COUNT - BLIND_PACKETS), BLIND_PACKETS)
    stage.say(f"{rate} {victims.counters()} {victims.before}")
    expect_equal(victims.metric("fairlead_link_events_total", event="failed"), 0, "lost links")
    victims.sweep(packet, victims.psn - NEAR_PACKETS, NEAR_PACKETS + 1)
    wait_until(lambda: victims.metric("fairlead_link_events_total", event="failed") == 1, "the link to be lost")
    victims.b.run(["touch", victims.release])
