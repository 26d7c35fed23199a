"""scripts/run_tests.py counts what ctest and GoogleTest report: no failure may be lost."""
import contextlib
import dataclasses
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import go_programs  # noqa: E402
import quick  # noqa: E402
import run_tests  # noqa: E402

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(counted LANGUAGES NONE)
enable_testing()
add_test(NAME passes COMMAND true)
add_test(NAME fails COMMAND sh -c "echo it was not so; exit 1")
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

def printed_by(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        function(*arguments)
    return printed.getvalue()


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
            run_tests.count_results(folder / "tests.xml", reports, "dev", cls.tally)

    def test_every_kind_of_failure_counts(self):
        self.assertEqual(sorted(self.tally.failures),
                         ["dev/bad_case: Ring.Fills", "dev/crashes", "dev/fails", "dev/leaks",
                          "dev/missing: Unable to find executable"])

    def test_failures_keep_their_last_words(self):
        self.assertEqual(self.tally.last_words["dev/bad_case: Ring.Fills"], ["1 is not 2"])
        self.assertEqual(self.tally.last_words["dev/fails"], ["it was not so"])
        self.assertIn("failed: dev/fails\n    it was not so\n", printed_by(run_tests.show, self.tally, 1))

    def test_what_was_not_tested_stands_first(self):
        self.assertEqual(printed_by(run_tests.show, self.tally, 1).splitlines()[0], "skipped: dev/cases: Ring.Fills: no second port")

    def test_last_words_of_unittest_are_those_before_its_summary(self):
        words = run_tests.last_words("".join(f"line {number}\n" for number in range(20)) +
                                     "AssertionError: 1 != 2\n\n" + "-" * 70 + "\nRan 3 tests in 1.0s\n\nFAILED (failures=1)\n")
        self.assertEqual(words, [*(f"line {number}" for number in range(11, 20)), "AssertionError: 1 != 2"])

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


TIMED_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(timed LANGUAGES NONE)
enable_testing()
add_test(NAME quick COMMAND true)
add_test(NAME wrong COMMAND false)
add_test(NAME hangs COMMAND sleep 100)
set_tests_properties(hangs PROPERTIES TIMEOUT 1)
add_test(NAME long COMMAND sleep 100)
add_test(NAME late COMMAND true)
set_tests_properties(late PROPERTIES DEPENDS long)
"""


class RunningOutOfTime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "CMakeLists.txt").write_text(TIMED_PROJECT)
            subprocess.run(["cmake", "-S", folder, "-B", folder / "build/timed"], check=True, stdout=subprocess.DEVNULL)
            cls.tally = run_tests.Tally()
            deadline = run_tests.Deadline(5 / 60)
            with unittest.mock.patch("run_tests.ROOT", folder), unittest.mock.patch("run_tests.configure", return_value=True), \
                    unittest.mock.patch("run_tests.build_run", return_value=None), \
                    unittest.mock.patch.dict("run_tests.RUNS", {"timed": run_tests.Run("timed", None, None, (1, 1))}), \
                    contextlib.redirect_stdout(io.StringIO()):
                run_tests.run_tests("timed", 2, cls.tally, deadline)
                run_tests.run_tests("timed", 2, cls.tally, deadline)  # a run that is left out as a whole

    def test_what_the_end_prevents_is_skipped_by_name(self):
        reason = "the 0.0833 minutes given by --minutes were over"
        self.assertEqual(sorted(self.tally.skips), [("timed", reason), ("timed/late", reason), ("timed/long", reason)])

    def test_a_failure_and_a_hang_before_the_end_stay_failures(self):
        self.assertEqual(sorted(self.tally.failures), ["timed/hangs", "timed/wrong"])
        self.assertEqual(self.tally.passed, 1)

    def test_the_slowest_are_shown_and_the_last_line_tells_the_time(self):
        printed = printed_by(run_tests.show, self.tally, 12.34)
        *_, count, last = printed.splitlines()
        self.assertEqual(count, "1 passed, 2 failed, 3 skipped")
        self.assertEqual(last, "test: FAILED in 12.3 minutes")
        self.assertRegex(printed, "(?m)^ +1[.]\\d  timed/hangs$")


class EndingTests(unittest.TestCase):
    def test_a_limit_that_was_nearly_reached_is_the_tests_own(self):
        """And a test that had time left was ended by the deadline."""
        for seconds, ended_by_deadline in (("0.99", frozenset()), ("0.60", {"hangs"})):
            line = f"1/2 Test  #1: hangs ....***Timeout {seconds} sec\n"
            self.assertEqual(run_tests.stopped_tests([line], {"hangs": {"TIMEOUT": 1.0}}, run_tests.Deadline(0)), ended_by_deadline)


class ChoosingQuickTests(unittest.TestCase):
    TESTS = ["tests/unit/smc", "tests/unit/relay", "tests/unit/base"]
    OBJECTS = {"tests/unit/smc/CMakeFiles/smc_test.dir/a.cc.o": {"tests/unit/smc/a.cc", "proxy/smc/group/link.h", "proxy/base/log.h"},
               "tests/unit/relay/CMakeFiles/relay_test.dir/b.cc.o": {"tests/unit/relay/b.cc", "proxy/relay/group/group.h"}}

    def test_changes_choose_tests(self):
        """A source those of its layer, a header every one that includes it, a new test itself, and a document none."""
        for changed, chosen in ((["proxy/relay/group/group.cc"], ["tests/unit/relay"]),
                                (["proxy/base/log.h"], ["tests/unit/base", "tests/unit/smc"]),
                                (["tests/unit/smc/new_test.cc"], ["tests/unit/smc"]),
                                (["docs/wire.md", "scripts/quick.py"], [])):
            with self.subTest(changed):
                self.assertEqual(sorted(quick.folders_to_test(changed, self.OBJECTS, self.TESTS)), chosen)

    def test_the_list_of_ninja_is_read(self):
        text = "a/CMakeFiles/x.dir/b.cc.o: #deps 2, deps mtime 1 (VALID)\n    ../../proxy/smc/group/link.h\n    /usr/include/stdio.h\n\n"
        self.assertEqual(quick.included_by_object(text, Path("/p/build/dev"), Path("/p")),
                         {"a/CMakeFiles/x.dir/b.cc.o": {"proxy/smc/group/link.h"}})


class Announcing(unittest.TestCase):
    def test_duration_and_skips_come_first(self):
        with unittest.mock.patch("run_tests.reason_of", lambda name: f"no {name}"):
            first, *rest = printed_by(run_tests.announce, ["dev", "release"], 2).splitlines()
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


class BuildingWhatDebianLacks(unittest.TestCase):
    """Stand-ins for the scripts, which write their program where the tests look for it."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.patch("go_programs.ROOT", self.folder)
        self.patch("go_programs.CACHE", self.folder)
        self.patch("go_programs.why_no_go", lambda: "")
        self.program = go_programs.Program("builds", ("fairlead-invented",), "invented-*", ("release",), 9)
        self.patch("go_programs.PROGRAMS", (self.program,))
        self.write_script("mkdir -p invented-1.9 invented-1.10; "
                          "for at in invented-1.9 invented-1.10; do touch $at/fairlead-invented; chmod +x $at/fairlead-invented; done")

    def patch(self, name, value):
        patcher = unittest.mock.patch(name, value)
        patcher.start()
        self.addCleanup(patcher.stop)

    def write_script(self, text):
        (self.folder / "builds").write_text(f"#!/bin/sh\ncd '{self.folder}'\n{text}\n")
        (self.folder / "builds").chmod(0o755)

    @staticmethod
    def build(*arguments):
        return printed_by(go_programs.build_missing, *arguments)

    def test_what_is_missing_is_built_once_and_the_newest_is_found(self):
        self.assertEqual(self.build(["release"], 9), "Go builds fairlead-invented: about 9 minutes.\n")
        self.assertEqual(self.program.find("fairlead-invented"), str(self.folder / "invented-1.10/fairlead-invented"))
        self.assertEqual(self.build(["release"], 9), "")

    def test_other_runs_need_nothing(self):
        self.assertEqual(self.build(["tsan"]), "")

    def test_without_time_it_says_what_it_does_not_build(self):
        self.assertEqual(self.build(["release"], 8.9), "Go builds no fairlead-invented: that takes 9 minutes, and 8.9 are left "
                         "beside the tests; builds builds it.\n")
        self.assertEqual(self.program.missing(), ["fairlead-invented"])

    def test_a_failure_is_shown_and_is_none_of_the_tests(self):
        self.write_script("echo no network >&2; exit 1")
        self.assertEqual(self.build(["release"]), "Go builds fairlead-invented: about 9 minutes.\nbuilds: no network\n")

    def test_an_older_program_than_its_source_is_missing(self):
        self.build(["release"])
        (self.folder / "main.go").touch()
        os.utime(self.folder / "main.go", (2_000_000_000,) * 2)
        newer = dataclasses.replace(self.program, source="main.go")
        self.assertEqual(newer.missing(), ["fairlead-invented"])

    def test_without_go_it_says_so_at_once(self):
        self.patch("go_programs.why_no_go", lambda: "go is not installed")
        self.assertEqual(self.build(["release"]), "Go builds no fairlead-invented: go is not installed.\n")


class TimeLeftBesideTheTests(unittest.TestCase):
    def test_is_what_the_runs_do_not_need(self):
        needed = sum(run_tests.RUNS["tsan"].minutes)
        self.assertAlmostEqual(run_tests.minutes_free(["tsan"], run_tests.Deadline(needed + 5)), 5, delta=0.1)

    def test_has_no_bound_without_a_deadline(self):
        self.assertIsNone(run_tests.minutes_free(["tsan"], run_tests.Deadline(None)))


if __name__ == "__main__":
    unittest.main()
