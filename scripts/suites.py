#!/usr/bin/env python3
"""Runs test suites of real servers: directly, then through two proxies as by default, over SMC-R and over TCP.

    scripts/suites.py [--short] [--list] [--log FOLDER]

Environment:
  SUITES        the suites to run, with commas: redis,postgresql,memcached,webdav,python (default: all)
  SUITES_UNITS  a regular expression that selects units (default: all)
  FAIRLEAD_BIN  the folder with fairlead-proxy (default: build/release/proxy)

The sources of the suites are downloaded from Debian into a cache folder (tests/suites/sources.py). A check that passes
directly must pass through the proxies, over the requested transport. A check that differs is repeated
directly. If it fails there too, it is unsteady and not a difference. The last line is "suites: OK units=N different=0",
or begins with "suites: FAILED" and the exit code is 1. The exit code is 77 if no suite could run. Needs root: the
suites run in their own network namespace.
"""
import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("FAIRLEAD_BIN", str(ROOT / "build/release/proxy"))
sys.path[1:1] = [str(ROOT / "tests/suites"), str(ROOT / "tests")]

# pylint: disable=wrong-import-position
from comparison import SHOWN_MAX, Comparison, Difference
from memcached_suite import Memcached
from kernel_counters import opened_connections
from place import TRANSPORTS, Place, enter_namespace, reasons_against
from postgresql_suite import PostgreSql
from python_suite import Python
from redis_suite import Redis
from sources import Missing
from suite_base import FAILED, PASSED, log_of, tail
from webdav_suite import WebDav

SUITES = {suite.name: suite for suite in (Redis, PostgreSql, Memcached, WebDav, Python)}
CONTROLS = 3  # repetitions without proxies of a check that differs
SKIPPED = 77


def say(text):
    print(f"suites: {text}", flush=True)


class Run:
    """One suite, in a folder that every user can enter."""

    def __init__(self, suite, units, short, log_folder):
        self.suite, self.units, self.short, self.log_folder = suite, units, short, log_folder
        self.comparison = Comparison(suite)

    def pass_over(self, transport, units, label=None):
        """{unit: {check: outcome}} of units over one transport."""
        label = label or transport
        outcomes = {}
        folder = Path(tempfile.mkdtemp(prefix="fairlead-units-"))
        os.chmod(folder, 0o755)
        place = Place(transport)
        try:
            with place:
                before, opened = place.carried(), opened_connections()
                begun = time.monotonic()
                for group in self.suite.run(units, folder):
                    self.tell(label, group, time.monotonic() - begun)
                    if opened_connections() == opened:
                        say(f"{self.suite.name} {' '.join(group)}: left out, makes no connection")
                    else:
                        outcomes.update(group)
                    self.show_logs(folder, transport, group)
                    now = place.carried()
                    self.check_carried(transport, group, now.since(before))
                    before, opened, begun = now, opened_connections(), time.monotonic()
        finally:
            if self.log_folder:
                kept = self.log_folder / self.suite.name / label
                kept.mkdir(parents=True, exist_ok=True)
                for path in folder.glob("*.log"):
                    shutil.copy(path, kept)
            shutil.rmtree(folder, ignore_errors=True)
        for problem in place.problems:
            self.comparison.not_carried.append(Difference("(proxies)", "end", transport, problem))
        return outcomes

    def newly_failed(self, unit, checks):
        """The checks of a unit that failed, and pass directly."""
        direct = self.comparison.outcomes.get("direct", {})
        return [check for check, outcome in direct.get(unit, {}).items() if outcome == PASSED != checks.get(check)]

    def check_carried(self, transport, group, carried):
        """A unit with failed checks is judged by these: it may have ended before its first byte."""
        if transport == "direct":
            return
        if wrong := carried.wrong(transport):
            for unit, checks in group.items():
                if not self.newly_failed(unit, checks):
                    self.comparison.not_carried.append(Difference(unit, "carried", transport, wrong))

    def show_logs(self, folder, transport, group):
        """Prints the output of units with a failed check that passes directly."""
        for unit, checks in group.items() if transport != "direct" else ():
            if failed := self.newly_failed(unit, checks):
                say(f"{self.suite.name} {unit} over {transport} failed: {', '.join(failed[:SHOWN_MAX])}")
                for path in [path] if (path := log_of(folder, unit)).exists() else sorted(folder.glob("*.log")):
                    print(f"--- {path.name}\n{tail(path)}\n---", flush=True)

    def tell(self, label, group, seconds):
        checks = [outcome for checks in group.values() for outcome in checks.values()]
        names = " ".join(group) if len(group) == 1 else f"{len(group)} units"
        say(f"{self.suite.name} {names} {label}: {len(checks)} checks, {checks.count(FAILED)} failed, "
            f"{seconds:.1f} s")

    def run(self):
        """Returns the Comparison of all transports."""
        comparison = self.comparison
        comparison.outcomes["direct"] = self.pass_over("direct", self.units)
        for transport in TRANSPORTS[1:]:
            comparison.outcomes[transport] = self.pass_over(transport, comparison.units())
        self.run_controls()
        if self.short:
            self.run_again()
        return comparison

    def run_again(self):
        """Repeats checks that differ. Suites have deadlines that a busy machine sometimes misses. A check of the short
        run counts as different if it differs in most of three further runs, else it is only reported. The full run is
        stricter."""
        comparison = self.comparison
        for transport in TRANSPORTS[1:]:
            left = {found for found in comparison.differences()
                    if found.transport == transport and found not in comparison.not_carried}
            differed = dict.fromkeys(left, 0)
            for number in range(CONTROLS if left else 0):
                units = [unit for unit in self.units if unit in {found.unit for found in left}]
                again = self.pass_over(transport, units, f"{transport} again {number + 1}")
                for found in left:
                    differed[found] += again.get(found.unit, {}).get(found.check) != PASSED
            comparison.once |= {found for found, times in differed.items() if times <= CONTROLS // 2}

    def run_controls(self):
        comparison = self.comparison
        for control in range(CONTROLS):
            left = {(found.unit, found.check) for found in comparison.differences()} \
                & set(comparison.direct_checks())
            if not left:
                break
            units = [unit for unit in self.units if unit in {unit for unit, _ in left}]
            again = self.pass_over("direct", units, f"control{control + 1}")
            comparison.unsteady |= {(unit, check) for unit, check in left
                                    if again.get(unit, {}).get(check) == FAILED}


def chosen(short):
    names = [name for name in os.environ.get("SUITES", "").split(",") if name] or list(SUITES)
    for name in names:
        if name not in SUITES:
            sys.exit(f"suites: FAILED no suite {name!r} in SUITES; there are: {','.join(SUITES)}")
    pattern = re.compile(os.environ.get("SUITES_UNITS") or "")
    for name in names:
        suite = SUITES[name]()
        try:
            suite.prepare()
        except Missing as missing:
            yield suite, None, str(missing)
            continue
        units = [unit for unit in (suite.excerpt if short else suite.units()) if pattern.search(unit)]
        yield suite, units, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the part that make test-all runs")
    parser.add_argument("--list", action="store_true", help="only list the units")
    parser.add_argument("--log", type=Path, help="keep the suites' own output in this folder")
    arguments = parser.parse_args()
    if reason := reasons_against():
        say(f"skipped: {reason}")
        return SKIPPED
    plan = list(chosen(arguments.short))
    skipped = [f"{suite.name}: {reason}" for suite, _, reason in plan if reason]
    for line in skipped:
        say(f"skipped: {line}")
    plan = [(suite, units) for suite, units, _ in plan if units]
    if arguments.list:
        for suite, units in plan:
            print(f"{suite.name}: {' '.join(units)}")
        return 0
    if not plan:
        say("skipped: no suite can run here" if skipped else "FAILED no unit is selected")
        return SKIPPED if skipped else 1
    enter_namespace()  # not earlier: the namespace has no route to Debian's servers
    comparisons = [Run(suite, units, arguments.short, arguments.log).run() for suite, units in plan]
    return report(comparisons, skipped)


def report(comparisons, skipped):
    for comparison in comparisons:
        comparison.print_details()
    print(f"{'suite':12} {'units':>6} {'checks':>7} {'same':>6} {'different':>10} {'failing':>7} {'unsteady':>9} "
          f"{'known':>6}")
    for comparison in comparisons:
        comparison.print_report()
    for line in skipped:
        say(f"skipped: {line}")
    for comparison in comparisons:
        if not comparison.units():
            say(f"nothing of {comparison.suite.name} passes directly")
    units = sum(len(comparison.units()) for comparison in comparisons)
    different = sum(len(comparison.different_units()) for comparison in comparisons)
    good = all(comparison.units() for comparison in comparisons) and different == 0
    say(f"{'OK' if good else 'FAILED'} units={units} different={different}")
    return 0 if good else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that started programs are stopped too
    try:
        sys.exit(main())
    except Exception:  # so that the last line is always printed
        traceback.print_exc()
        say("FAILED by an error of its own, see above")
        sys.exit(1)
