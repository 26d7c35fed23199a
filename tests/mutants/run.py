#!/usr/bin/env python3
"""Builds small defects into the protocol's code, and counts how many of them the tests notice.

    tests/mutants/run.py [--seed N] [--mutants 200] [--jobs 2]     what `make mutants SEED=N` runs
    tests/mutants/run.py --files REGEX [--keys FILE]               all mutants of some files, or those of them whose keys
                                                                   are in FILE, such as the output of a run before

The code is proxy/wire, proxy/smc and proxy/rdma/shm. The defects, mutants, are changed operators and bounds, and calls and
assignments that are left out. The seed draws them. All are built into one copy of the tree, and an environment variable
chooses one of them at a time. The unit tests of its folder run first, then simulations. A mutant that all of them pass
survives. survivors.txt names those that change nothing that matters, each with the reason.

The last line is "mutants: OK seed=N mutants=N killed=N explained=N rate=N%", or FAILED if the rate is below 95 %.
Needs libclang for Python (Debian: python3-clang-14).
"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

try:
    import places
except ImportError:
    sys.exit("mutants: this Python has no module clang; install python3-clang-14 and run with /usr/bin/python3")

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "build" / "mutants"
FOLDERS = ("proxy/wire", "proxy/smc", "proxy/rdma/shm")
RATE_MIN = 95  # per cent
SIMULATIONS = 300
FIRST_SEED = 1
SIMULATE = ("tests/sim/simulate", "--quiet", "--seeds", str(SIMULATIONS), "--first-seed", str(FIRST_SEED))
WIRE = [("tests/unit/wire/wire_test",), ("tests/unit/wire/wire_capture_test",)]
SMC = [("tests/unit/smc/smc_test",), ("tests/unit/smc/smc_capture_test",)]
SHM = [("tests/unit/rdma/shm_test",), ("tests/conformance/shm_conformance_test",),
       ("tests/conformance/shm_hostile_test",), ("tests/conformance/shm_device_test",)]
TESTS = {"proxy/wire": [*WIRE, *SMC, SIMULATE], "proxy/smc": [*SMC, SIMULATE], "proxy/rdma/shm": SHM}
# A test that needs this much longer than without a mutant hangs.
PATIENCE, PATIENCE_SECONDS = 4, 10
SURVIVORS = Path(__file__).parent / "survivors.txt"


def folder_of(place):
    return next(folder for folder in FOLDERS if place.path.startswith(f"{folder}/"))


def reasons():
    """{key of a place: why its mutant changes nothing that matters}; a line with the key, then an indented one."""
    found, key = {}, None
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if line.startswith("  "):
            found[key] = f"{found.get(key, '')} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            key = line.strip()
    return found


def copy_tree(numbered):
    """The files of the project, with the defects built in. Writes only what differs from the run before."""
    source = PLACE / "source"
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            check=True, capture_output=True).stdout
    names = {name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()}
    for old in [path for path in source.rglob("*") if path.is_file() and str(path.relative_to(source)) not in names]:
        old.unlink()
    by_path = collections.defaultdict(list)
    for number, place in numbered.items():
        by_path[place.path].append((place, number))
    for name in names:
        text, copy = (ROOT / name).read_bytes(), source / name
        if name in by_path:
            text = places.with_switches(text, by_path[name])
        if copy.is_file() and copy.read_bytes() == text:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(text)
        shutil.copymode(ROOT / name, copy)
    return source


def tests_of(numbered):
    return {test for folder in {folder_of(place) for place in numbered.values()} for test in TESTS[folder]}


def build(source, tests, jobs):
    targets = sorted({Path(test[0]).name for test in tests})
    flags = f"-O1 -w -D_GLIBCXX_ASSERTIONS -include {source / 'tests/mutants/mutant.inc'}"
    subprocess.run(["cmake", "-S", source, "-B", PLACE / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                    f"-DCMAKE_CXX_FLAGS={flags}", "-DFAIRLEAD_BENCHMARKS=OFF"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", PLACE / "build", "-j", str(jobs), "--target", *targets], check=True,
                   stdout=subprocess.DEVNULL)


def passes(test, seconds_max, number=0):
    """Runs one test program with one mutant."""
    try:
        done = subprocess.run([PLACE / "build" / test[0], *test[1:]], env={**os.environ, "FAIRLEAD_MUTANT": str(number)},
                              cwd=PLACE, check=False, timeout=seconds_max, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def usual_seconds(tests):
    """How long each program needs without a mutant; it has to pass."""
    needed = {}
    for test in tests:
        began = time.monotonic()
        if not passes(test, 3600):
            sys.exit(f"mutants: {' '.join(test)} fails without any mutant")
        needed[test] = time.monotonic() - began
    return needed


def killer(place, number, needed):
    """The first program that notices the mutant, or nothing."""
    for test in TESTS[folder_of(place)]:
        if not passes(test, PATIENCE * needed[test] + PATIENCE_SECONDS, number):
            return Path(test[0]).name
    return ""


def draw(found, arguments):
    """{number: place}. With --files or --keys every place has the same number in each run."""
    if arguments.files is None:
        drawn = random.Random(arguments.seed).sample(found, min(arguments.mutants, len(found)))
        return dict(enumerate(drawn, 1))
    return {number: place for number, place in enumerate(found, 1) if re.search(arguments.files, place.path)}


def asked_for(numbered, keys):
    """Those of which a line of the file has the key."""
    if keys is None:
        return numbered
    lines = {line.strip() for line in keys.read_text(encoding="utf-8").splitlines()}
    return {number: place for number, place in numbered.items() if place.key() in lines}


def report(what, results):
    explained = reasons()
    lines = collections.Counter()
    unexplained = []
    for place, by in results:
        known = not by and place.key() in explained
        lines[folder_of(place), "killed" if by else "explained" if known else "survived"] += 1
        if not by and not known:
            unexplained.append(place)
    print(f"\n{'folder':16} {'killed':>8} {'explained':>10} {'survived':>9}")
    for folder in FOLDERS:
        print(f"{folder:16} {lines[folder, 'killed']:8} {lines[folder, 'explained']:10} {lines[folder, 'survived']:9}")
    for test, count in collections.Counter(by for _, by in results if by).most_common():
        print(f"killed by {test}: {count}")
    for place in sorted(unexplained, key=lambda place: (place.path, place.line)):
        print(f"survived: line {place.line}\n{place.key()}")
    killed = sum(1 for _, by in results if by)
    known = sum(count for (_, what), count in lines.items() if what == "explained")
    judged = len(results) - known
    rate = 100 * killed / judged if judged else 100
    good = rate >= RATE_MIN
    print(f"mutants: {'OK' if good else 'FAILED'} {what} mutants={len(results)} killed={killed} explained={known} "
          f"rate={rate:.1f}%", flush=True)
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants")
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--files", metavar="REGEX", help="all mutants of the files whose paths match, instead of a draw")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="with --files: only mutants whose keys are lines of this file")
    arguments = parser.parse_args()
    if arguments.mutants < 1:
        parser.error(f"--mutants: {arguments.mutants} is not allowed; allowed: 1 and more")
    if arguments.keys and arguments.files is None:
        parser.error("--keys: allowed only with --files")
    PLACE.mkdir(parents=True, exist_ok=True)
    found = places.Finder(ROOT, FOLDERS, PLACE).all()
    numbered = draw(found, arguments)
    tried = asked_for(numbered, arguments.keys)
    if not tried:
        parser.error("--files, --keys: no place has such a path and key; allowed: paths below " + ", ".join(FOLDERS))
    what = f"seed={arguments.seed}" if arguments.files is None else f"files={arguments.files}"
    print(f"mutants: {len(tried)} of {len(found)} places, {what}; building", flush=True)
    tests = tests_of(numbered)
    build(copy_tree(numbered), tests, arguments.jobs)
    needed = usual_seconds(tests)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tasks = {pool.submit(killer, place, number, needed): place for number, place in tried.items()}
        results = []
        for task in concurrent.futures.as_completed(tasks):
            results.append((tasks[task], task.result()))
            if not results[-1][1]:
                print(f"passed all tests:\n{tasks[task].key()}", flush=True)
            print(f"\r{len(results)} of {len(tasks)}, {sum(1 for _, by in results if not by)} survive ", end="",
                  file=sys.stderr, flush=True)
    return report(what, results)


if __name__ == "__main__":
    sys.exit(main())
