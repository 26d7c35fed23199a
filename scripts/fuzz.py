#!/usr/bin/env python3
"""Runs every fuzzer in build/fuzz for a while: scripts/fuzz.py [--seconds N] [--jobs N] [name …]

Each begins with the corpus in git (tests/fuzz/corpus/<name>) and the inputs that earlier runs have found
(build/fuzz/found/<name>). An input that causes a failure is kept in build/fuzz/crashes. Add it to the
corpus in git together with the fix.
"""
import argparse
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
SUFFIX = "_fuzzer"
INPUT_SECONDS_MAX = 5  # a decoder that needs longer for one message hangs


def fuzz(program, seconds):
    name = program.name.removesuffix(SUFFIX)
    found, crashes = BUILD / "found" / name, BUILD / "crashes"
    corpus = ROOT / "tests" / "fuzz" / "corpus" / name
    found.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [program, f"-max_total_time={seconds}", f"-timeout={INPUT_SECONDS_MAX}", "-print_final_stats=1",
         f"-artifact_prefix={crashes}/{name}-", found, *([corpus] if corpus.is_dir() else [])],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False)
    executed = [line.split()[-1] for line in done.stdout.splitlines()
                if "number_of_executed_units" in line]
    return name, done.returncode, executed[0] if executed else "?", done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    programs = sorted(p for p in BUILD.rglob(f"*{SUFFIX}") if p.is_file() and os.access(p, os.X_OK)
                      and (not arguments.names or p.name.removesuffix(SUFFIX) in arguments.names))
    if not programs:
        print("no fuzzers: make fuzz builds them")
        return 2
    broken = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, code, executed, output in pool.map(lambda p: fuzz(p, arguments.seconds), programs):
            print(f"{name}: {executed} inputs, {'ok' if code == 0 else 'BROKEN'}", flush=True)
            if code != 0:
                broken += 1
                print("\n".join(output.splitlines()[-60:]))
    print(f"{len(programs)} fuzzers, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
