#!/usr/bin/env python3
"""Builds and runs all tests; the last line says how many passed and failed.

    scripts/run_tests.py [--runs dev,tsan,release] [--jobs N]

Three runs, each a preset of CMake: everything under AddressSanitizer and UBSan (dev), the tests
labelled "threads" under ThreadSanitizer (tsan), the tests labelled "integration" and "lab" on the
optimised build (release). Each case of a GoogleTest program counts as a test; any other program counts
as one test.
"""
import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LABEL_OF_RUN = {"dev": None, "tsan": "threads", "release": "integration|lab"}
# In addition to one test for each processor: some tests take minutes and little processor time.
LEISURELY_TESTS_MAX = 6
SECONDS_PER_TEST_MAX = 1800  # for tests that set no limit of their own

# Sanitizers print a stack, and a finding is a failure.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


class Tally:
    def __init__(self):
        self.passed = 0
        self.failures = []  # names
        self.skips = []  # name and reason

    def line(self):
        text = f"{self.passed} passed, {len(self.failures)} failed"
        return text + (f", {len(self.skips)} skipped" if self.skips else "")


def run(command, **options):
    print("+ " + " ".join(map(str, command)), flush=True)
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False, **options)


def configure(preset):
    """Prints output only on failure: forty lines of found libraries help no reader."""
    done = run(["cmake", "--preset", preset], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
               text=True)
    if done.returncode != 0:
        print(done.stdout, flush=True)
    return done.returncode == 0


def selection(label):
    return ["-L", f"^({label})$"] if label else []


def targets_of_run(build, label):
    """Targets that the selected tests need: their own folders, and everything that is not a test."""
    if label is None:
        return ["all"]
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *selection(label)],
                           capture_output=True, text=True, check=True)
    folders = set()
    for test in json.loads(shown.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        # Script tests run in their source folder; the build tree has the same structure.
        folder = Path(properties.get("WORKING_DIRECTORY", "/"))
        top = build if folder.is_relative_to(build) else ROOT
        if not folder.is_relative_to(top) or folder == top:
            return ["all"]
        folders.add(f"{folder.relative_to(top)}/all")
    if not folders:
        return []
    known = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True,
                           text=True, check=True).stdout
    phony = {line.split(":")[0] for line in known.splitlines() if line.endswith("/all: phony")}
    if not folders <= phony:
        return ["all"]
    return sorted(folders | {target for target in phony if not target.startswith("tests/")})


def count_gtest_cases(report, name, tally):
    """True if the report contains a failed case."""
    failed = False
    for case in xml.parse(report).getroot().iter("testcase"):
        case_name = f"{name}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            failed = True
            tally.failures.append(case_name)
        elif skipped is not None:
            reason = " ".join((skipped.text or skipped.get("message") or "no reason").split())
            tally.skips.append((case_name, reason))
        elif case.get("status") == "run":
            tally.passed += 1
    return failed


def count_not_run(test, name, tally):
    """Distinguishes a test that skips itself with a reason from one that could not start."""
    skipped = test.find("skipped")
    message = "disabled" if skipped is None else skipped.get("message")
    output = (test.findtext("system-out") or "").strip().splitlines()
    if message == "disabled" or message.startswith("SKIP_"):
        tally.skips.append((name, output[-1] if output else message))
    else:
        tally.failures.append(f"{name}: {message}")


def count_results(build, junit, reports, run_name, tally):
    for test in xml.parse(junit).getroot().iter("testcase"):
        name = f"{run_name}/{test.get('name')}"
        status = test.get("status")  # run, fail, notrun or disabled
        report = reports / f"{test.get('name')}.xml"
        if status in ("notrun", "disabled"):
            count_not_run(test, name, tally)
            continue
        cases_failed = report.exists() and count_gtest_cases(report, name, tally)
        if status == "fail" and not cases_failed:
            # Crashed, timed out, or found leaking after its last case.
            tally.failures.append(name)
        elif status != "fail" and not report.exists():
            tally.passed += 1


def run_preset(run_name, jobs, tally):
    label = LABEL_OF_RUN[run_name]
    build = ROOT / "build" / run_name
    if not configure(run_name):
        tally.failures.append(f"{run_name}: configuration")
        return
    targets = targets_of_run(build, label)
    if not targets:
        print(f"{run_name}: no test has the label {label}", flush=True)
        return
    if run(["cmake", "--build", build, "-j", str(jobs), "--target", *targets]).returncode != 0:
        tally.failures.append(f"{run_name}: build")
        return
    junit, reports = build / "tests.xml", build / "test-reports"
    for old in [junit, *reports.glob("*.xml")]:
        old.unlink(missing_ok=True)
    environment = {**SANITIZER_OPTIONS, **os.environ, "GTEST_OUTPUT": f"xml:{reports}/",
                   "GTEST_COLOR": "no"}
    done = run(["ctest", "--test-dir", build, "--output-on-failure", "--output-junit", junit,
                "--timeout", str(SECONDS_PER_TEST_MAX), "--no-tests=ignore", "-j",
                str(jobs + LEISURELY_TESTS_MAX), *selection(label)], env=environment)
    if not junit.exists():
        tally.failures.append(f"{run_name}: ctest left no report, exit code {done.returncode}")
        return
    count_results(build, junit, reports, run_name, tally)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default=",".join(LABEL_OF_RUN))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    tally = Tally()
    for run_name in arguments.runs.split(","):
        if run_name not in LABEL_OF_RUN:
            parser.error(f"no run {run_name!r}; there are: {', '.join(LABEL_OF_RUN)}")
        run_preset(run_name, arguments.jobs, tally)
    for name, reason in tally.skips:
        print(f"skipped: {name}: {reason}")
    for name in tally.failures:
        print(f"failed: {name}")
    print(tally.line(), flush=True)
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
