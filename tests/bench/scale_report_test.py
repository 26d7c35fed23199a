"""Tests of the tables that scale.py computes from samples. By hand: python3 -m unittest scale_report_test"""

import unittest

import scale_report


class Active(unittest.TestCase):
    rows = scale_report.active_rows({("Fairlead", 8): [3.0, 4.0, 5.0], ("Fairlead", 1000): [2.0],
                                     ("direct", 8): [1.0], ("direct", 1000): [3.0]})

    def test_rows_hold_median_and_span(self):
        first = self.rows[0]
        self.assertEqual((first["count"], first["rate"], first["low"], first["high"]),
                         (8, 4.0, 3.0, 5.0))

    def test_the_ratio_is_to_the_targets_own_fewest_streams(self):
        self.assertEqual([row["to_fewest"] for row in self.rows], [1.0, 0.5, 1.0, 3.0])


class Failover(unittest.TestCase):
    def test_rows_hold_median_and_longest(self):
        rows = scale_report.failover_rows({"nothing": [1.0, 2.0, 9.0], "a port": [4.0]})
        self.assertEqual([(row["times"], row["median_ms"], row["high_ms"]) for row in rows],
                         [(3, 2.0, 9.0), (1, 4.0, 4.0)])
        self.assertEqual(set(scale_report.TABLES["failover"][1]), set(rows[0]))


class Table(unittest.TestCase):
    def test_is_markdown_with_a_cell_for_each_column(self):
        lines = scale_report.table("active", Active.rows)
        self.assertEqual(len(lines), 2 + len(Active.rows))
        self.assertEqual({line.count("|") for line in lines}, {7})
        self.assertEqual(lines[3], "| 1000 | Fairlead | 2.00 | 2.00 | 2.00 | 0.50 |")

    def test_every_column_is_a_field_of_its_rows(self):
        self.assertEqual(set(scale_report.TABLES["active"][1]), set(Active.rows[0]))


if __name__ == "__main__":
    unittest.main()
