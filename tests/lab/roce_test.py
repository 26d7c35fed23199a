#!/usr/bin/env python3
"""The builder of RoCEv2 packets against the packets that a kernel has sent (tests/captures)."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "guest"))

import roce  # noqa: E402  the guests import it without a package

CAPTURES = Path(__file__).parents[1] / "captures"
sys.path.insert(1, str(CAPTURES))

import pcap  # noqa: E402


def recorded():
    for path in sorted(CAPTURES.glob("*.pcap")):
        for datagram in pcap.datagrams(path.read_bytes()):
            packet = roce.parse(datagram)
            if packet is not None:
                yield datagram, packet


class Captured(unittest.TestCase):
    def test_rebuilds_every_packet_to_the_same_bytes(self):
        opcodes = set()
        for datagram, packet in recorded():
            self.assertEqual(packet.datagram().hex(), datagram.hex())
            opcodes.add(packet.opcode)
        self.assertLessEqual({roce.SEND_ONLY, roce.WRITE_ONLY, roce.ACKNOWLEDGE}, opcodes)

    def test_reads_the_message_of_a_connection(self):
        messages = [packet.payload for _, packet in recorded() if packet.opcode == roce.SEND_ONLY]
        lengths = [len(message) for message in messages if message[0] == 0xfe]
        self.assertGreater(len(lengths), 10)
        self.assertEqual(set(lengths), {44})


class Built(unittest.TestCase):
    def setUp(self):
        self.packet = roce.Packet("10.9.0.2", "10.9.0.1", roce.WRITE_ONLY, 17, 5, b"abcde", (4096, 77, 5))

    def test_pads_the_payload_and_reads_it_back(self):
        datagram = self.packet.datagram()
        self.assertEqual(len(datagram), 20 + 8 + 12 + 16 + 8 + 4)
        self.assertEqual(roce.parse(datagram), self.packet)

    def test_counts_sequence_numbers_in_24_bits(self):
        self.packet.psn = roce.PSN_COUNT + 3
        self.assertEqual(roce.parse(self.packet.datagram()).psn, 3)

    def test_protects_addresses_and_payload_but_not_what_routers_change(self):
        def code():
            return self.packet.datagram()[-4:]

        before = code()
        self.packet.time_to_live, self.packet.type_of_service, self.packet.udp_checksum = 3, 106, 9
        self.assertEqual(code(), before)
        self.packet.source = "10.9.0.3"
        self.assertNotEqual(code(), before)

    def test_takes_other_datagrams_for_none(self):
        datagram = self.packet.datagram()
        self.assertIsNone(roce.parse(datagram[:40]))
        self.assertIsNone(roce.parse(datagram[:22] + b"\x00\x35" + datagram[24:]))
        self.assertIsNone(roce.parse(datagram[:9] + b"\x06" + datagram[10:]))


if __name__ == "__main__":
    unittest.main()
