#!/usr/bin/env python3
"""Builds and runs the unit tests of what changed, for the desk.

    scripts/quick.py [--base COMMIT] [--jobs N] [--list]

Changed is what differs from where the branch left BASE, committed or not. A test program is chosen if one of its own
sources changed or includes a changed header, or if it is the test of a layer with a changed source. Layers above are
left to `make test`. Scripts and documents choose the checks of tests/tidy. The build is the one of `make test`
(build/dev); before its first build nothing is known about includes, and every unit test of a changed folder is chosen.

Example: scripts/quick.py --base HEAD~3 --list
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from run_tests import ROOT, SANITIZER_OPTIONS, configure
from tidy import changed_files

BUILD = ROOT / "build" / "dev"
SECONDS_PER_TEST_MAX = 300  # a hang, on the slowest machine too
SOURCES = (".cc", ".c", ".h", ".inc")


def output(command, folder=ROOT):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def included_by_object(text, build=BUILD, root=ROOT):
    """Project files that each object was made of, from the output of `ninja -t deps`."""
    files = collections.defaultdict(set)
    current = None
    for line in text.splitlines():
        if line and not line.startswith(" "):
            current = line.split(":")[0]
        elif line.strip():
            path = Path(os.path.normpath(build / line.strip()))
            if path.is_relative_to(root):
                files[current].add(str(path.relative_to(root)))
    return files


def folder_of_object(name):
    """The source folder of an object: the build tree has the same structure."""
    return name.split("/CMakeFiles/")[0]


def layer_of_tests(folder):
    """proxy/relay for tests/unit/relay: the folder that tests of this folder are about."""
    below = Path(folder).relative_to("tests/unit")
    for top in ("proxy", "."):
        if (ROOT / top / below).is_dir():
            return str(Path(top) / below)
    return None


def folders_to_test(changed, objects, test_folders):
    """Folders of unit tests that the changed files choose."""
    sources = {name for name in changed if name.endswith(SOURCES)}
    touched = {folder_of_object(name) for name, files in objects.items() if files & sources}
    touched |= {str(Path(name).parent) for name in sources}
    return {folder for folder in test_folders
            if folder in touched or any(Path(source).parent.is_relative_to(layer_of_tests(folder) or "/") for source in sources)}


def unit_tests():
    """Unit test programs by folder: {folder: {name: program}}."""
    shown = json.loads(output(["ctest", "--test-dir", BUILD, "--show-only=json-v1"]))
    found = collections.defaultdict(dict)
    for test in shown["tests"]:
        program = Path(test.get("command", ["/"])[0])
        if program.is_relative_to(BUILD / "tests" / "unit"):
            found[str(program.parent.relative_to(BUILD))][test["name"]] = program
    return found


def scripts_changed(changed):
    return any(not name.endswith(SOURCES) for name in changed)


def run_program(name, program):
    """The output of a failed program, or None."""
    try:
        done = subprocess.run([program, "--gtest_brief=1", "--gtest_color=no"], cwd=program.parent, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              timeout=SECONDS_PER_TEST_MAX, env={**SANITIZER_OPTIONS, **os.environ})
    except subprocess.TimeoutExpired:
        return f"{name}: no end after {SECONDS_PER_TEST_MAX} seconds"
    return None if done.returncode == 0 else done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", help="a commit (default: origin/main, or the last commit without it)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--list", action="store_true", help="print the chosen tests and end")
    arguments = parser.parse_args()
    began = time.monotonic()
    try:
        changed = sorted(changed_files(arguments.base))
    except subprocess.CalledProcessError as error:
        parser.error(f"--base {arguments.base}: {error.stderr.strip()}")
    if not changed:
        print("quick: OK, nothing differs")
        return 0
    if not configure("dev"):
        return 1
    tests = unit_tests()
    objects = included_by_object(output(["ninja", "-C", BUILD, "-t", "deps"]))
    chosen = {name: program for folder in folders_to_test(changed, objects, tests)
              for name, program in tests[folder].items()}
    print(f"quick: {len(changed)} files differ; unit tests: {', '.join(sorted(chosen)) or 'none'}", flush=True)
    if arguments.list:
        return 0
    if chosen and subprocess.run(["cmake", "--build", BUILD, "-j", str(arguments.jobs), "--target", *sorted(chosen)],
                                 check=False).returncode != 0:
        return 1
    failed = []
    for name, program in sorted(chosen.items()):
        text = run_program(name, program)
        if text is not None:
            print(text)
            failed.append(name)
    if scripts_changed(changed) and subprocess.run([sys.executable, "-B", ROOT / "tests/tidy/tidy.py"], check=False).returncode != 0:
        failed.append("tidy.py")
    print(f"quick: {'FAILED ' + ', '.join(failed) if failed else 'OK'} in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
