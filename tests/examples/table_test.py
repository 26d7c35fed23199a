"""How the examples turn rounds into a table and advice, and what they make of the answers of fairleadctl. Needs no root."""
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(ROOT / "examples")]

# pylint: disable=wrong-import-position
from example import DIRECT, FAIRLEAD, HAPROXY, advice, medians, spread, summed, table
import dask_shuffle
import nats
import nats_client
import postgres

PGBENCH = """number of transactions actually processed: 24000/24000
number of failed transactions: 0 (0.000%)
latency average = 0.600 ms
tps = 13320.718042 (without initial connection time)
"""


def rounds(*rates):
    """Rounds of one way, of two rows each."""
    return [[("large", "MiB/s", large), ("small", "requests/s", small)] for large, small in rates]


def results(direct, haproxy, fairlead):
    return {way: rounds(rates)[0] for way, rates in ((DIRECT, direct), (HAPROXY, haproxy), (FAIRLEAD, fairlead))}


WORK = {"large": "large results", "small": "short queries"}


class Table(unittest.TestCase):
    def test_each_row_has_its_own_median(self):
        self.assertEqual(medians(rounds((1, 30), (3, 10), (2, 20))), [("large", "MiB/s", 2), ("small", "requests/s", 20)])

    def test_spread_is_that_of_the_worst_row_of_any_way(self):
        self.assertAlmostEqual(spread({DIRECT: rounds((10, 100), (10, 100), (11, 100)),
                                       FAIRLEAD: rounds((10, 100), (10, 120), (10, 90))}), 0.3)
        self.assertEqual(spread({DIRECT: rounds((10, 100))}), 0)

    def test_shares_are_of_the_same_row(self):
        lines = table(results((100, 4000), (50, 1000), (80, 3000)))
        self.assertEqual([line.split()[-6:] for line in lines[1:]], [
            ["100", "50", "80", "0.80", "1.60", "MiB/s"], ["4,000", "1,000", "3,000", "0.75", "3.00", "requests/s"]])

    def test_rows_that_differ_between_ways_are_an_error(self):
        broken = results((1, 1), (1, 1), (1, 1))
        broken[HAPROXY].pop()
        self.assertRaises(ValueError, table, broken)


class Advice(unittest.TestCase):
    def test_names_what_is_slower_than_direct(self):
        self.assertEqual(advice(results((100, 4000), (50, 1000), (99, 2000)), WORK),
                         "Not worth it on one node where most of the work is short queries (0.50 of direct TCP).")

    def test_names_what_haproxy_does_faster(self):
        self.assertEqual(advice(results((100, 4000), (50, 2500), (60, 2000)), WORK),
                         "Not worth it on one node where most of the work is large results (0.60 of direct TCP) or "
                         "short queries (0.50 of direct TCP); HAProxy is faster for short queries.")

    def test_says_so_if_nothing_is_slower(self):
        self.assertIn("no row is slower", advice(results((100, 4000), (50, 2500), (100, 3900)), WORK))

    def test_each_row_of_an_example_has_words(self):
        for module, names in ((nats.Nats, (nats.STREAM, nats.REQUEST, nats.SHORT)),
                              (postgres.Postgres, (postgres.SELECT, postgres.TRANSFER, postgres.CONNECT, postgres.COPY)),
                              (dask_shuffle.DaskShuffle, (dask_shuffle.SHUFFLE, dask_shuffle.TRANSPOSE))):
            self.assertEqual(set(module.work), set(names))


class Answers(unittest.TestCase):
    def test_connections_of_both_proxies_are_added(self):
        def report(smcr, tcp, short, in_frames=0):
            one = {"active": in_frames, "tx_bytes": 5, "rx_bytes": 7}
            return {"total": {"connections": {
                "outbound": {"smcr": {"total": smcr, **one}, "tcp": {"total": tcp, **one}, "short": {"total": short, **one}},
                "inbound": {"smcr": {"total": 1000, **one}}}}}
        self.assertEqual(summed([report(1, 2, 4), report(8, 16, 32)]),
                         {"smcr": 9, "tcp": 18, "short": 36, "connections": 63, "smcr_bytes": 24})
        self.assertEqual(summed([report(0, 0, 0, in_frames=1)])["connections"], 1)

    def test_answer_of_pgbench(self):
        self.assertEqual(postgres.RATE.search(PGBENCH)[1], "13320.718042")
        self.assertEqual(postgres.PROCESSED.search(PGBENCH)[1], "24000")
        self.assertEqual(postgres.FAILED.search(PGBENCH)[1], "0")

    def test_message_that_was_changed_is_noticed(self):
        payload = nats_client.numbered(7, 128)
        self.assertTrue(nats_client.is_numbered(payload, 7, 128))
        self.assertFalse(nats_client.is_numbered(payload[:-1] + b"x", 7, 128))
        self.assertFalse(nats_client.is_numbered(payload[:-1], 7, 128))
        self.assertFalse(nats_client.is_numbered(payload, 8, 128))


if __name__ == "__main__":
    unittest.main()
