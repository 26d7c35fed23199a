"""Tests of the report computed from samples. Run by ctest; by hand: python3 -m unittest report_test"""

import json
import os
import tempfile
import unittest
from types import SimpleNamespace

import report
import workloads
from sampling import Sample


def samples(target, *values, **more):
    return [Sample(target, "bulk1", i, {"GBps": value}, busy=1.0, **more)
            for i, value in enumerate(values)]


def row_of(rows, target):
    return next(row for row in rows if row["target"] == target)


class Rows(unittest.TestCase):
    def test_hold_median_span_and_ratios(self):
        rows = report.rows(samples("direct", 4.0) + samples("haproxy", 1.0, 3.0, 2.0)
                           + samples("haproxy-128k", 8.0) + samples("mine", 6.0))
        haproxy = row_of(rows, "haproxy")
        self.assertEqual((haproxy["median"], haproxy["min"], haproxy["max"]), (2.0, 1.0, 3.0))
        self.assertEqual(haproxy["samples"], 3)
        mine = row_of(rows, "mine")
        self.assertEqual((mine["ratio_direct"], mine["ratio_haproxy"], mine["ratio_haproxy_tuned"]),
                         (1.5, 3.0, 0.75))

    def test_have_no_ratio_to_what_was_not_measured_or_is_zero(self):
        mine = row_of(report.rows(samples("mine", 6.0) + samples("direct", 0.0)), "mine")
        self.assertIsNone(mine["ratio_direct"])
        self.assertIsNone(mine["ratio_haproxy"])

    def test_leave_failed_samples_out_and_count_noisy_ones(self):
        all_samples = (samples("mine", 1.0) + samples("mine", 9.0, error="byte counts differ")
                       + samples("mine", 3.0, noisy=True))
        mine = row_of(report.rows(all_samples), "mine")
        self.assertEqual((mine["median"], mine["max"], mine["noisy_samples"]), (2.0, 3.0, 1))
        self.assertEqual(len(report.failures(all_samples)), 1)


class Report(unittest.TestCase):
    def test_is_valid_json_without_any_sample(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "new", "report.json")
            report.write(path, [], {}, 0, {"mine": "not there"}, False)
            with open(path, encoding="utf-8") as file:
                read = json.load(file)
        self.assertEqual((read["rows"], read["complete"]), ([], False))


class Metrics(unittest.TestCase):
    options = SimpleNamespace(redis_n=1000, secs=1.0, send_bytes=1)
    cost = workloads.Cost(side=2.0, machine=4.0, side_switches=10, wire_bytes=1_000_000_000)

    def test_of_bulk_are_per_gigabyte(self):
        output = json.dumps({"bytes": 2_000_000_000, "ok": True, "gbytes_per_s": 3.0})
        found, wrong = workloads.metrics("bulk1", output, self.cost, self.options)
        self.assertEqual(found, {"GBps": 3.0, "side_s_per_GB": 1.0, "sys_s_per_GB": 2.0,
                                 "wire_share": 0.5})
        self.assertEqual(wrong, "")

    def test_say_when_bytes_were_lost(self):
        output = json.dumps({"bytes": 1, "ok": False, "gbytes_per_s": 3.0})
        self.assertTrue(workloads.metrics("bulk8", output, self.cost, self.options)[1])

    def test_say_when_connections_failed(self):
        output = json.dumps({"n": 10, "fail": 1, "cps": 5.0, "worst_ms": 1.0, "first_p50_us": 1.0, "first_p99_us": 2.0,
                             "whole_p50_us": 1.0, "whole_p99_us": 2.0})
        self.assertTrue(workloads.metrics("crr", output, self.cost, self.options)[1])

    def test_of_redis_are_read_by_column(self):
        output = ('"test","rps","p50_latency_ms","p99_latency_ms"\n'
                  '"SET","2000.0","0.5","1.5"\n"GET","4000.0","0.25","1.0"\n')
        found, _ = workloads.metrics("redis", output, self.cost, self.options)
        self.assertEqual((found["set_kops"], found["get_kops"]), (2.0, 4.0))
        self.assertEqual((found["set_p99_us"], found["get_p50_us"]), (1500.0, 250.0))
        self.assertEqual(found["side_us_per_op"], 1000.0)


if __name__ == "__main__":
    unittest.main()
