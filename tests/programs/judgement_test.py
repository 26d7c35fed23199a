"""The judgement itself, without any program."""
import sys
import unittest
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from judgement import Findings, differences  # noqa: E402
from kernel_counters import parse  # noqa: E402 pylint: disable=wrong-import-position


def findings(**changed):
    return Findings(**{"results": {"rows": 5}, "errors": 0, "rate": 100.0, "unit": "rows/s", "tail_seconds": 0.01,
                       "losses": {"TCPTimeouts": 1}, **changed})


class Differences(unittest.TestCase):
    def test_a_lower_rate_is_none(self):
        self.assertEqual(differences(findings(), findings(rate=1.0)), [])

    def test_each_kind_is_named(self):
        self.assertEqual(differences(findings(), findings(results={"rows": 4})), ["rows is 4, directly 5"])
        self.assertEqual(differences(findings(), findings(results={})), ["rows is None, directly 5"])
        self.assertEqual(differences(findings(results={}), findings()), ["rows is 5, directly nothing"])
        self.assertEqual(differences(findings(), findings(errors=2)), ["2 errors, directly 0"])
        self.assertEqual(differences(findings(), findings(tail_seconds=0.215)), ["the tail is 215.0 ms, directly 10.0 ms"])
        self.assertEqual(differences(findings(), findings(losses={"TCPTimeouts": 2, "RcvPruned": 1})),
                         ["TCPTimeouts 2, directly 1", "RcvPruned 1, directly 0"])

    def test_a_busy_machine_is_none(self):
        self.assertEqual(differences(findings(), findings(tail_seconds=0.1)), [])
        self.assertEqual(differences(findings(tail_seconds=0.3), findings(tail_seconds=0.4)), [])
        self.assertEqual(differences(findings(errors=3), findings(errors=3)), [])

    def test_counters_of_the_kernel(self):
        self.assertEqual(parse("Ip: A B\nIp: 1 2\nTcp: C\nTcp: -1\n"), {"Ip": {"A": 1, "B": 2}, "Tcp": {"C": -1}})


if __name__ == "__main__":
    unittest.main()
