#!/usr/bin/env python3
"""Builds and runs tests. The first lines say how long it takes and what is skipped here; the last two lines how many
tests passed and failed, and how long it took.

    scripts/run_tests.py [--runs dev|all|RUN,…] [--jobs N] [--minutes N]

Each run is a preset of CMake and a choice of tests by label:

    dev            under AddressSanitizer and UBSan: every test once, in the first of its variants
    tsan           under ThreadSanitizer: tests labelled "threads"
    release        optimised: tests labelled "integration" and "simulation" in all variants, images, pods, a cluster
    lab            optimised: two virtual machines with the kernel's SMC
    dev-variants   under AddressSanitizer and UBSan: the variants that dev leaves out

With --minutes, no test starts after that time. Tests that it prevents or ends count as skipped, with this reason. Each
case of a GoogleTest program counts as a test; any other program counts as one test.
"""
import argparse
import dataclasses
import datetime
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import go_programs

ROOT = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Run:
    preset: str
    only: str | None  # a regular expression of labels
    without: str | None
    minutes: tuple[int, int]  # about, on two idle CPUs: the tests, the first build without a compiler cache
    packages: tuple[str, ...] = ()  # groups of scripts/bootstrap.sh; a test says if something of them is missing


PACKAGES_REQUIRED = ("build", "test")  # groups that every run needs
RUNS = {
    "dev": Run("dev", None, "variant", (10, 8), ("k8s",)),
    "tsan": Run("tsan", "threads", None, (2, 6)),
    "release": Run("release", "integration|simulation", None, (18, 8), ("k8s", "suites", "programs")),
    "lab": Run("release", "lab", None, (8, 0), ("lab",)),
    "dev-variants": Run("dev", "variant", None, (5, 0)),
}
# In addition to one test for each processor: some tests take minutes and little processor time.
LEISURELY_TESTS_MAX = 6
SECONDS_PER_TEST_MAX = 1800  # for tests that set no limit of their own
LIMIT_TOLERANCE = 0.1  # seconds by which ctest may end a test before its own limit
SLOWEST_SHOWN = 20
WORDS_SHOWN = 10  # lines of a failed test
WORDS_LENGTH_MAX = 300
UNITTEST_SUMMARY = re.compile(r"Ran \d+ tests? in ")

# Sanitizers print a stack, and a finding is a failure.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}

TIMED_OUT = re.compile(r"^\s*\d+/\d+ Test +#\d+: (\S+) \.*\*\*\*Timeout +([\d.]+) sec")


class Deadline:
    """The moment after which no test starts, or none. In whole seconds, which is what ctest takes."""

    def __init__(self, minutes):
        self.minutes = minutes
        self.end = None if minutes is None else int(time.time() + 60 * minutes)

    def seconds_left(self):
        return None if self.end is None else max(0.0, self.end - time.time())

    def passed(self):
        # ctest ends a test milliseconds before.
        return self.end is not None and time.time() >= self.end - 1

    def reason(self):
        return f"the {self.minutes:.3g} minutes given by --minutes were over"

    def for_ctest(self):
        if self.end is None:
            return []
        return ["--stop-time", datetime.datetime.fromtimestamp(self.end).strftime("%H:%M:%S")]


class Tally:
    def __init__(self):
        self.passed = 0
        self.failures = []  # names
        self.last_words = {}  # by name of a failure: lines of its output
        self.skips = []  # name and reason
        self.seconds = {}  # by name of a program

    def good(self):
        return self.passed > 0 and not self.failures

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
    if "lab" in runs and shutil.which("qemu-system-x86_64") is None:
        yield "lab", "no qemu-system-x86_64"


def announce(names, jobs):
    tests, build = (sum(RUNS[name].minutes[i] for name in names) for i in (0, 1))
    print(f"Runs {', '.join(names)} with {jobs} jobs: about {tests} minutes on two idle CPUs, and up to {build} more "
          "for the first build.")
    skips = list(expected_skips(names))
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


def selection(chosen):
    return [*(["-L", f"^({chosen.only})$"] if chosen.only else []), *(["-LE", f"^({chosen.without})$"] if chosen.without else [])]


def tests_of(build, chosen=None):
    """What ctest knows about the tests of a run, or about all: name, properties and COMMAND."""
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *(selection(chosen) if chosen else [])],
                           capture_output=True, text=True, check=True)
    return {test["name"]: {"COMMAND": test.get("command", []), **{p["name"]: p["value"] for p in test.get("properties", [])}}
            for test in json.loads(shown.stdout)["tests"]}


def targets_of_run(build, chosen):
    """Targets that the selected tests need: their own folders, and everything that is not a test."""
    if chosen.only is None:
        return ["all"]
    folders = set()
    for properties in tests_of(build, chosen).values():
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


def last_words(output):
    """The lines that tell most likely why a program failed: those before unittest's summary, otherwise the last ones."""
    lines = [line for line in output.splitlines() if line.strip()]
    ends = [number for number, line in enumerate(lines) if UNITTEST_SUMMARY.match(line)]
    return lines[max(0, ends[-1] - WORDS_SHOWN - 1):ends[-1] - 1] if ends else lines[-WORDS_SHOWN:]


def count_gtest_cases(report, name, tally):
    """True if the report contains a failed case."""
    failed = False
    for case in xml.parse(report).getroot().iter("testcase"):
        case_name = f"{name}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            failed = True
            tally.failures.append(case_name)
            tally.last_words[case_name] = case.find("failure").get("message", "").splitlines()[:WORDS_SHOWN]
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


def count_results(junit, reports, run_name, tally, stopped=frozenset(), reason=""):
    """Counts a report of ctest; `stopped` are the tests that the end of the time ended."""
    for test in xml.parse(junit).getroot().iter("testcase"):
        name = f"{run_name}/{test.get('name')}"
        status = test.get("status")  # run, fail, notrun or disabled
        report = reports / f"{test.get('name')}.xml"
        if status in ("notrun", "disabled"):
            count_not_run(test, name, tally)
            continue
        tally.seconds[name] = float(test.get("time"))
        if test.get("name") in stopped:
            tally.skips.append((name, reason))
            continue
        cases_failed = report.exists() and count_gtest_cases(report, name, tally)
        if status == "fail" and not cases_failed:
            # Crashed, timed out, or found leaking after its last case.
            tally.failures.append(name)
            tally.last_words[name] = last_words(test.findtext("system-out") or "")
        elif status != "fail" and not report.exists():
            tally.passed += 1


def stopped_tests(lines, tests, deadline):
    """Tests that ctest ended at the deadline, not at their own limit."""
    if not deadline.passed():
        return frozenset()
    timeouts = (match.groups() for match in map(TIMED_OUT.match, lines) if match)
    return frozenset(name for name, seconds in timeouts
                     if float(seconds) + LIMIT_TOLERANCE < tests[name].get("TIMEOUT", SECONDS_PER_TEST_MAX))


def build_run(build, targets, jobs, deadline):
    """None if it was built, otherwise why not."""
    try:
        done = run(["cmake", "--build", build, "-j", str(jobs), "--target", *targets], timeout=deadline.seconds_left())
    except subprocess.TimeoutExpired:
        return deadline.reason()
    return None if done.returncode == 0 else "build"


def run_ctest(command, environment):
    """The lines that it printed; each is shown at once."""
    print("+ " + " ".join(map(str, command)), flush=True)
    lines = []
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          text=True, errors="replace") as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, lines


def run_tests(run_name, jobs, tally, deadline):
    chosen = RUNS[run_name]
    build = ROOT / "build" / chosen.preset
    if deadline.passed():
        tally.skips.append((run_name, deadline.reason()))
        return
    if not configure(chosen.preset):
        tally.failures.append(f"{run_name}: configuration")
        return
    targets = targets_of_run(build, chosen)
    if not targets:
        print(f"{run_name}: no test has the label {chosen.only}", flush=True)
        return
    problem = build_run(build, targets, jobs, deadline)
    if deadline.passed():
        tally.skips.append((run_name, deadline.reason()))
        return
    if problem:
        tally.failures.append(f"{run_name}: {problem}")
        return
    junit, reports = build / "tests.xml", build / "test-reports"
    for old in [junit, *reports.glob("*.xml")]:
        old.unlink(missing_ok=True)
    tests = tests_of(build, chosen)
    environment = {**SANITIZER_OPTIONS, **os.environ, "GTEST_OUTPUT": f"xml:{reports}/",
                   "GTEST_COLOR": "no"}
    status, lines = run_ctest(["ctest", "--test-dir", build, "--output-on-failure", "--output-junit", junit,
                               "--timeout", str(SECONDS_PER_TEST_MAX), "--no-tests=ignore", "-j",
                               str(jobs + LEISURELY_TESTS_MAX), *deadline.for_ctest(), *selection(chosen)], environment)
    if not junit.exists():
        tally.failures.append(f"{run_name}: ctest left no report, exit code {status}")
        return
    count_results(junit, reports, run_name, tally, stopped_tests(lines, tests, deadline),
                  deadline.reason() if deadline.passed() else "")
    reported = {test.get("name") for test in xml.parse(junit).getroot().iter("testcase")}
    for name in tests.keys() - reported:
        if deadline.passed():
            tally.skips.append((f"{run_name}/{name}", deadline.reason()))
        else:
            tally.failures.append(f"{run_name}/{name}: ctest did not report it")


def install(names):
    """Installs missing packages of Debian; False if the runs cannot do without them."""
    if run(["scripts/bootstrap.sh", *PACKAGES_REQUIRED]).returncode != 0:
        return False
    for group in dict.fromkeys(group for name in names for group in RUNS[name].packages):
        if run(["scripts/bootstrap.sh", group]).returncode != 0:
            print(f"Some packages of the group {group} are missing.", flush=True)
    return True


def minutes_free(names, deadline):
    """That these runs do not need before the deadline; None without one."""
    left = deadline.seconds_left()
    return None if left is None else left / 60 - sum(sum(RUNS[name].minutes) for name in names)


def show(tally, minutes):
    """The result. What nobody tested stands first."""
    for name, reason in sorted(tally.skips):
        print(f"skipped: {name}: {reason}")
    slowest = sorted(tally.seconds.items(), key=lambda entry: -entry[1])[:SLOWEST_SHOWN]
    print(f"The {len(slowest)} slowest of {len(tally.seconds)} programs, in seconds; some run side by side:")
    for name, seconds in slowest:
        print(f"  {seconds:7.1f}  {name}")
    for name in tally.failures:
        print(f"failed: {name}")
        for line in tally.last_words.get(name, ()):
            print(f"    {line[:WORDS_LENGTH_MAX]}")
    print(tally.line())
    print(f"test: {'OK' if tally.good() else 'FAILED'} in {minutes:.1f} minutes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default="dev", help=f"any of {','.join(RUNS)}; or all (default: dev)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, help="start no test after this time")
    arguments = parser.parse_args()
    names = list(RUNS) if arguments.runs == "all" else arguments.runs.split(",")
    for name in names:
        if name not in RUNS:
            parser.error(f"no run {name!r}; there are: {', '.join(RUNS)}, all")
    began = time.monotonic()
    tally = Tally()
    deadline = Deadline(arguments.minutes)
    if not install(names):
        return 1
    go_programs.build_missing(names, minutes_free(names, deadline))
    announce(names, arguments.jobs)
    for number, name in enumerate(names, 1):
        minutes = (time.monotonic() - began) / 60
        print(f"Run {number} of {len(names)}: {name}, after {minutes:.0f} minutes", flush=True)
        run_tests(name, arguments.jobs, tally, deadline)
    show(tally, (time.monotonic() - began) / 60)
    return 0 if tally.good() else 1


if __name__ == "__main__":
    sys.exit(main())
