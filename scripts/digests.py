#!/usr/bin/env python3
"""Compares the behaviour of two builds: equal digests of the same simulations.

    scripts/digests.py BEFORE AFTER [--seeds N] [--first-seed N] [--jobs N]
    scripts/digests.py --save FILE AFTER [--seeds N]

BEFORE and AFTER are each a build folder (build/release), a program `simulate`, or a file made by --save. Runs the
seeds of tests/sim/seeds.txt and N more. The last line begins with "digests: OK", or the exit code is not 0. For a
seed that differs, `simulate --digest --trace --seeds 1 --first-seed SEED` of both builds shows the difference.
"""
import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEED_LIST = ROOT / "tests/sim/seeds.txt"
CHUNK_SEEDS = 250
CHUNK_SECONDS_MAX = 600
SHOWN_MAX = 10


def listed_seeds():
    lines = (line.split("#")[0].strip() for line in SEED_LIST.read_text(encoding="utf-8").splitlines())
    return [int(line) for line in lines if line]


def parsed(text, source):
    digests = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 2 or not words[0].isdigit() or len(words[1]) != 16:
            raise SystemExit(f"digests: {source}: a line is not a seed and a digest: {line!r}")
        digests[int(words[0])] = words[1]
    return digests


def simulate_of(path):
    """The program in a build folder, the program itself, or nothing for a saved file."""
    if path.is_dir():
        program = path / "tests/sim/simulate"
        if not program.exists():
            raise SystemExit(f"digests: {program} is not built")
        return program
    if not path.exists():
        raise SystemExit(f"digests: {path} does not exist")
    return path if os.access(path, os.X_OK) else None


def run(program, first, count, with_list):
    command = [program.resolve(), "--digest", "--quiet", "--first-seed", str(first), "--seeds", str(count)]
    if with_list:
        command += ["--list", SEED_LIST]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=CHUNK_SECONDS_MAX, check=False)
    if done.returncode:
        raise SystemExit(f"digests: {program} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return parsed(done.stdout, program)


def digests_of(path, first, count, jobs):
    program = simulate_of(path)
    if program is None:
        return parsed(path.read_text(encoding="utf-8"), path)
    digests = {}
    with ThreadPoolExecutor(jobs) as pool:
        chunks = [pool.submit(run, program, at, min(CHUNK_SEEDS, first + count - at), at == first)
                  for at in range(first, first + count, CHUNK_SEEDS)]
        for chunk in chunks:
            digests.update(chunk.result())
    return digests


def compare(before, after, wanted):
    missing = [seed for seed in wanted if seed not in before or seed not in after]
    different = [seed for seed in wanted if seed not in missing and before[seed] != after[seed]]
    for name, seeds in (("missing", missing), ("different", different)):
        if seeds:
            more = f" and {len(seeds) - SHOWN_MAX} more" if len(seeds) > SHOWN_MAX else ""
            print(f"digests: {name}: {' '.join(map(str, seeds[:SHOWN_MAX]))}{more}")
    if missing or different:
        return 1
    print(f"digests: OK, {len(wanted)} seeds are equal")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", nargs="+", type=Path, metavar="BUILD")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the digests of one build to FILE")
    parser.add_argument("--seeds", type=int, default=500, help="seeds beside those of tests/sim/seeds.txt")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if len(arguments.builds) != (1 if arguments.save else 2):
        parser.error("--save needs one build, a comparison two")
    if arguments.seeds < 1:
        parser.error("--seeds is at least 1")
    found = [digests_of(path, arguments.first_seed, arguments.seeds, arguments.jobs) for path in arguments.builds]
    if arguments.save:
        text = "".join(f"{seed} {digest}\n" for seed, digest in sorted(found[0].items()))
        arguments.save.write_text(text, encoding="utf-8")
        print(f"digests: OK, {len(found[0])} seeds in {arguments.save}")
        return 0
    last = arguments.first_seed + arguments.seeds
    wanted = sorted({*listed_seeds(), *range(arguments.first_seed, last)})
    return compare(*found, wanted)


if __name__ == "__main__":
    sys.exit(main())
