#!/usr/bin/env python3
"""What each variant of the integration tests reaches that nothing else reaches.

    scripts/variants.py [--jobs N] [--no-build] [--whole] [--show VARIANT …]

Builds with coverage into build/coverage, runs each variant of the integration tests, and counts lines of the proxy's
sources. With --whole, the unit tests and simulations are one more group, which takes three times as long. A process that a
test kills leaves no counts. The variant "confined" is left out: its profile of system calls ends a program that writes its
counts, and it differs from "direct" by the profile alone.

--show prints the lines that only this variant reaches.
"""
import argparse
import collections
import os
import shutil
import subprocess
import sys
from pathlib import Path

import run_tests

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
SOURCES = ROOT / "proxy"
OTHERS = "unit, simulation"  # programs that have no variants
FIRST = "direct"
LEFT_OUT = "confined"
SECONDS_PER_TEST_MAX = 600


def build(jobs, targets):
    subprocess.run(["cmake", "--preset", "coverage"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "-j", str(jobs), "--target", *targets], check=True)


def groups(whole):
    """{group: names of its tests}; a group is a variant, or the programs that have none."""
    found = collections.defaultdict(list)
    for name, properties in run_tests.tests_of(BUILD).items():
        variables = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
        if "FAIRLEAD_VARIANT" in variables:
            found[variables["FAIRLEAD_VARIANT"]].append(name)
        elif whole and properties["COMMAND"] and Path(properties["COMMAND"][0]).is_relative_to(BUILD):
            found[OTHERS].append(name)
    found.pop(LEFT_OUT, None)
    return found


def run_group(name, tests, jobs):
    """The folder with the counts of its processes, one file for each program."""
    folder = BUILD / "counts" / "".join(c if c.isalnum() else "_" for c in name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, "LLVM_PROFILE_FILE": f"{folder}/%m.profraw"}
    chosen = "^(" + "|".join(tests) + ")$"
    print(f"{name}: {len(tests)} tests", flush=True)
    done = subprocess.run(["ctest", "--test-dir", BUILD, "-R", chosen, "--timeout", str(SECONDS_PER_TEST_MAX), "-j",
                           str(jobs + run_tests.LEISURELY_TESTS_MAX)],
                          env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout[-3000:], flush=True)
    return folder


def programs():
    """Every program of the build that counts."""
    names = subprocess.run(["ninja", "-C", BUILD, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    linked = (line.split(":")[0] for line in names.splitlines() if "CXX_EXECUTABLE_LINKER" in line)
    return [BUILD / name for name in linked if (BUILD / name).is_file()]


def reached(folder, binaries):
    """{(file, line): whether it was reached} of all lines with code."""
    merged = folder / "merged"
    subprocess.run(["llvm-profdata-14", "merge", "-sparse", "-o", merged, *sorted(folder.glob("*.profraw"))], check=True)
    first, *rest = binaries
    out = subprocess.run(["llvm-cov-14", "export", "-format=lcov", f"-instr-profile={merged}", first,
                          *(f"-object={one}" for one in rest), SOURCES], check=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    lines, path = {}, ""
    for entry in out.splitlines():
        kind, _, value = entry.partition(":")
        if kind == "SF":
            path = str(Path(value).relative_to(ROOT))
        elif kind == "DA":
            number, count = value.split(",")[:2]
            lines[path, int(number)] = lines.get((path, int(number)), False) or int(count) > 0
    return lines


def show(name, lines):
    print(f"only {name}:")
    source = {}
    for path, number in sorted(lines):
        text = source.setdefault(path, (ROOT / path).read_text().splitlines())
        print(f"  {path}:{number}: {text[number - 1].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-build", action="store_true", help="use the programs that are there")
    parser.add_argument("--show", nargs="*", default=[], metavar="VARIANT")
    parser.add_argument("--whole", action="store_true", help="compare with unit tests and simulations, too")
    arguments = parser.parse_args()
    if not arguments.no_build:
        build(arguments.jobs, ["all"] if arguments.whole else ["proxy/all", "proxy/ctl/all"])
    binaries = programs()
    sets = {}
    for name, tests in groups(arguments.whole).items():
        lines = reached(run_group(name, tests, arguments.jobs), binaries)
        sets[name] = {line for line, was in lines.items() if was}
        total = len(lines)
    print(f"\nOf {total} lines with code in proxy/:\n")
    print("| tests | reach | not reached by `direct` | reached by nothing else |\n|---|---|---|---|")
    for name, lines in sets.items():
        others = set().union(*(other for key, other in sets.items() if key != name))
        print(f"| {name} | {len(lines)} | {len(lines - sets[FIRST]) if name != FIRST else '–'} | {len(lines - others)} |")
        if name in arguments.show:
            show(name, lines - others)
    return 0


if __name__ == "__main__":
    sys.exit(main())
