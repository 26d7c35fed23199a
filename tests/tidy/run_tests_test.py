"""scripts/run_tests.py counts what ctest and GoogleTest report: no failure may be lost."""
import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import run_tests  # noqa: E402

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(counted LANGUAGES NONE)
enable_testing()
add_test(NAME passes COMMAND true)
add_test(NAME fails COMMAND false)
add_test(NAME crashes COMMAND sh -c "kill -SEGV $$$$")
add_test(NAME declines COMMAND sh -c "echo needs hardware; exit 77")
set_tests_properties(declines PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME missing COMMAND /nonexistent/program)
add_test(NAME disabled COMMAND true)
set_tests_properties(disabled PROPERTIES DISABLED ON)
add_test(NAME cases COMMAND true)
add_test(NAME bad_case COMMAND false)
add_test(NAME leaks COMMAND false)
"""

GTEST_REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="Ring">
<testcase name="Wraps" status="run" result="completed" classname="Ring"/>
<testcase name="Fills" status="run" result="completed" classname="Ring">{inner}</testcase>
<testcase name="Off" status="notrun" result="suppressed" classname="Ring"/>
</testsuite></testsuites>
"""


class CountingResults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "CMakeLists.txt").write_text(PROJECT)
            reports = folder / "reports"
            reports.mkdir()
            skipped = '<skipped message="no second port"/>'
            failed = '<failure message="1 is not 2"/>'
            (reports / "cases.xml").write_text(GTEST_REPORT.format(inner=skipped))
            (reports / "bad_case.xml").write_text(GTEST_REPORT.format(inner=failed))
            (reports / "leaks.xml").write_text(GTEST_REPORT.format(inner=""))
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(["cmake", "-S", folder, "-B", folder / "build"], check=True, **quiet)
            subprocess.run(["ctest", "--test-dir", folder / "build", "--output-junit",
                            folder / "tests.xml"], check=False, **quiet)
            cls.tally = run_tests.Tally()
            run_tests.count_results(folder / "build", folder / "tests.xml", reports, "dev",
                                    cls.tally)

    def test_every_kind_of_failure_counts(self):
        self.assertEqual(sorted(self.tally.failures),
                         ["dev/bad_case: Ring.Fills", "dev/crashes", "dev/fails", "dev/leaks",
                          "dev/missing: Unable to find executable"])

    def test_skips_keep_their_reason(self):
        self.assertEqual(sorted(self.tally.skips),
                         [("dev/cases: Ring.Fills", "no second port"),
                          ("dev/declines", "needs hardware"), ("dev/disabled", "Disabled")])

    def test_cases_of_one_program_count_each(self):
        # passes, Wraps of cases, Wraps of bad_case, Wraps and Fills of leaks
        self.assertEqual(self.tally.passed, 5)

    def test_the_line_names_skips_only_when_there_are_some(self):
        self.assertEqual(self.tally.line(), "5 passed, 5 failed, 3 skipped")
        self.assertEqual(run_tests.Tally().line(), "0 passed, 0 failed")


class Announcing(unittest.TestCase):
    def test_duration_and_skips_come_first(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed, \
                unittest.mock.patch("run_tests.reason_of", lambda name: f"no {name}"):
            run_tests.announce(["dev", "release"], 2)
        first, *rest = printed.getvalue().splitlines()
        self.assertRegex(first, "^Runs dev, release with 2 jobs: about [0-9]+ minutes")
        self.assertIn("  kubernetes_cluster_test: no cluster", rest)
        self.assertIn("  kubernetes_apiserver_test: no apiserver", rest)

    def test_a_run_names_only_its_own_skips(self):
        with unittest.mock.patch("run_tests.reason_of", lambda name: f"no {name}"):
            self.assertEqual(list(run_tests.expected_skips(["tsan"])), [])

    def test_reasons_are_those_of_the_tests(self):
        for name in ("apiserver", "containers", "cluster"):
            self.assertIsInstance(run_tests.reason_of(name) or "", str)
        self.assertIn("No module", run_tests.reason_of("no_such_module"))


if __name__ == "__main__":
    unittest.main()
