#!/usr/bin/env python3
"""Builds and runs all tests; the first lines say how long it takes and what is skipped here, the last
line how many tests passed and failed.

    scripts/run_tests.py [--runs dev,tsan,release] [--jobs N]

Three runs, each a preset of CMake: everything under AddressSanitizer and UBSan (dev), the tests
labelled "threads" under ThreadSanitizer (tsan), the tests labelled "integration", "lab" and
"simulation" on the optimised build (release). Each case of a GoogleTest program counts as a test; any
other program counts as one test.
"""
import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LABEL_OF_RUN = {"dev": None, "tsan": "threads", "release": "integration|lab|simulation"}
# In addition to one test for each processor: some tests take minutes and little processor time.
LEISURELY_TESTS_MAX = 6
SECONDS_PER_TEST_MAX = 1800  # for tests that set no limit of their own

# About, on two idle CPUs: the tests, and the first build without a compiler cache.
MINUTES = {"dev": (14, 10), "tsan": (2, 6), "release": (24, 8)}

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


def reason_of(name):
    """What a module of the Kubernetes tests says is missing on this machine."""
    folder = str(ROOT / "tests" / "kubernetes")
    if folder not in sys.path:
        sys.path[1:1] = [folder, str(ROOT / "tests")]
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        return str(error)
    return module.why_not()


def expected_skips(runs):
    """Pairs of the tests that will be skipped on this machine, and the reason."""
    if "dev" in runs:
        yield "tests of memory limits, in dev", "sanitizers need more memory than the limit"
        yield "tests without descriptors, in dev", "UBSan needs descriptors"
        if not any(Path("/sys/class/infiniband").glob("*")):
            yield "verbs_conformance_test", "no RDMA device on this machine; the lab has some"
        if shutil.which("prometheus") is None:
            yield "tests with Prometheus", "prometheus is not installed"
        if reason := reason_of("apiserver"):
            yield "kubernetes_apiserver_test", reason
    if "release" in runs:
        if reason := reason_of("containers"):
            yield "tests with containers", reason
        if reason := reason_of("cluster"):
            yield "kubernetes_cluster_test", reason
        if shutil.which("qemu-system-x86_64") is None:
            yield "lab", "no qemu-system-x86_64"


def announce(runs, jobs):
    tests, build = (sum(MINUTES[name][i] for name in runs) for i in (0, 1))
    print(f"Runs {', '.join(runs)} with {jobs} jobs: about {tests} minutes on two idle CPUs, and up to {build} more "
          "for the first build.")
    skips = list(expected_skips(runs))
    print("Will be skipped here:" if skips else "Nothing will be skipped here.")
    for name, reason in skips:
        print(f"  {name}: {reason}")
    sys.stdout.flush()


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
    runs = arguments.runs.split(",")
    for run_name in runs:
        if run_name not in LABEL_OF_RUN:
            parser.error(f"no run {run_name!r}; there are: {', '.join(LABEL_OF_RUN)}")
    announce(runs, arguments.jobs)
    began = time.monotonic()
    for number, run_name in enumerate(runs, 1):
        minutes = (time.monotonic() - began) / 60
        print(f"Run {number} of {len(runs)}: {run_name}, after {minutes:.0f} minutes", flush=True)
        run_preset(run_name, arguments.jobs, tally)
    for name, reason in tally.skips:
        print(f"skipped: {name}: {reason}")
    for name in tally.failures:
        print(f"failed: {name}")
    print(tally.line(), flush=True)
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
