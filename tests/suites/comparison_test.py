"""Tests of the rules for a difference between a suite's runs, and for the use of a transport."""
import contextlib
import io
import sys
import unittest
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from comparison import Comparison, Difference
from memcached_suite import checks_of
from place import Carried
from suite import main
from suite_base import FAILED, PASSED, WHOLE, Suite


class Example(Suite):
    name = "example"
    known = (("unit", "known *", "a reason"),)


def compare(direct, smcr, unit="unit"):
    made = Comparison(Example())
    made.outcomes = {"direct": {unit: direct}, "smcr": {unit: smcr}}
    return made


class Differences(unittest.TestCase):
    def test_same_outcomes_differ_in_nothing(self):
        self.assertEqual(compare({"a": PASSED}, {"a": PASSED}).differences(), [])

    def test_check_that_fails_only_through_proxies(self):
        found = compare({"a": PASSED, "b": PASSED}, {"a": PASSED, "b": FAILED})
        self.assertEqual(found.differences(), [Difference("unit", "b", "smcr", FAILED)])
        self.assertEqual(found.different_units(), ["unit"])

    def test_check_that_does_not_run_through_proxies(self):
        found = compare({"a": PASSED, "b": PASSED}, {"a": PASSED})
        self.assertEqual(found.differences(), [Difference("unit", "b", "smcr", "did not run")])

    def test_check_that_fails_directly_is_not_compared(self):
        found = compare({"a": PASSED, "b": FAILED}, {"a": PASSED, "b": FAILED})
        self.assertEqual(found.differences(), [])
        self.assertEqual(found.failing_directly(), [("unit", "b")])

    def test_unsteady_check(self):
        found = compare({"a": PASSED}, {"a": FAILED})
        found.unsteady.add(("unit", "a"))
        self.assertEqual(found.differences(), [])

    def test_difference_that_did_not_come_again(self):
        found = compare({"a": PASSED, "b": PASSED}, {"a": FAILED, "b": FAILED})
        found.once.add(Difference("unit", "a", "smcr", FAILED))
        self.assertEqual([found.check for found in found.differences()], ["b"])

    def test_known_check_of_its_own_unit_only(self):
        self.assertEqual(compare({"known 1": PASSED}, {"known 1": FAILED}).differences(), [])
        self.assertEqual(len(compare({"known 1": PASSED}, {"known 1": FAILED}, "other").differences()), 1)

    def test_unit_that_fails_as_a_whole(self):
        """It counts if no check shows the cause: a crash after the last one, for example."""
        whole = compare({"a": PASSED, WHOLE: PASSED}, {"a": PASSED, WHOLE: FAILED})
        self.assertEqual([found.check for found in whole.differences()], [WHOLE])
        known = compare({"known 1": PASSED, WHOLE: PASSED}, {"known 1": FAILED, WHOLE: FAILED})
        self.assertEqual(known.differences(), [])
        both = compare({"a": PASSED, "known 1": PASSED, WHOLE: PASSED},
                       {"a": FAILED, "known 1": FAILED, WHOLE: FAILED})
        self.assertEqual([found.check for found in both.differences()], ["a"])

    def test_unit_that_was_not_carried(self):
        found = compare({"a": PASSED}, {"a": PASSED})
        found.not_carried.append(Difference("unit", "carried", "smcr", "no bytes"))
        self.assertEqual(found.different_units(), ["unit"])

    def test_report_names_every_kind(self):
        found = compare({"a": PASSED, "known 1": PASSED, "b": FAILED}, {"a": FAILED, "known 1": FAILED})
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found.print_details()
        for line in ("different: example: unit: a: smcr: failed",
                     "known difference: example: unit: known 1: smcr: a reason",
                     "not compared, fails directly: example: unit: b"):
            self.assertIn(line, out.getvalue())

    def test_reason_without_a_difference_is_told(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            compare({"known 1": PASSED}, {"known 1": PASSED}).print_details()
        self.assertIn("did not differ this time: example: unit: known *: a reason", out.getvalue())


class Counts(unittest.TestCase):
    def carried(self, **changes):
        counts = {(proxy, what): 0 for proxy in ("out", "in") for what in ("smcr", "tcp", "short", "bytes")}
        return Carried({**counts, **{tuple(key.split("_")): value for key, value in changes.items()}})

    def test_smcr(self):
        good = {"out_smcr": 3, "in_smcr": 3, "out_bytes": 9, "in_bytes": 9}
        self.assertIsNone(self.carried(**good).wrong("smcr"))
        for change in ({"out_smcr": 0}, {"in_bytes": 0}, {"in_tcp": 1}):
            self.assertIsNotNone(self.carried(**{**good, **change}).wrong("smcr"), change)
        self.assertIsNotNone(self.carried(**good).wrong("tcp"))

    def test_earned(self):
        for good in ({"out_smcr": 3, "in_smcr": 3}, {"out_short": 3, "in_short": 3}):
            good |= {"out_bytes": 9, "in_bytes": 9}
            self.assertIsNone(self.carried(**good).wrong("earned"))
            self.assertIsNotNone(self.carried(**good, in_tcp=1).wrong("earned"))
        self.assertIsNotNone(self.carried(out_bytes=9, in_bytes=9).wrong("earned"))

    def test_difference_of_two_counts(self):
        self.assertIsNotNone(self.carried(out_smcr=3, in_smcr=3).since(self.carried(out_smcr=3)).wrong("smcr"))


class Memcached(unittest.TestCase):
    def test_names_of_checks_do_not_change_between_runs(self):
        self.assertEqual(checks_of("ok 1 - creating unix domain socket /tmp/memcachetest123\nok 2\n"
                                   f"ok 3 - foo == '{'XY' * 40}'\n"),
                         {"creating unix domain socket /tmp/memcachetest*": PASSED, "2": PASSED, "foo == '*'": PASSED})

    def test_a_repeated_check_fails_if_one_of_them_does(self):
        self.assertEqual(checks_of("ok 1 - got it\nnot ok 2 - got it\nok 3 - got it\n"), {"got it": FAILED})


if __name__ == "__main__":
    main()
