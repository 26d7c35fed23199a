#!/usr/bin/env python3
"""Checks the models of the protocol with Spin, exhaustively within their bounds.

    tests/model/run.py [--jobs N] [model …]     what `make model` runs

Each model is then checked with one defect after the other built in, its mutants. A mutant that passes is an error: the
model would not notice that defect in the program. The last line is
"model: OK models=N properties=N traces=N mutants_refused=N". docs/verification.md says what that means.
"""
import argparse
import concurrent.futures
import dataclasses
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SECONDS_MAX = 900  # of one check
DEPTH_MAX = 100_000
ERRORS = re.compile(r"errors: (\d+)")
STATES = re.compile(r"^ *(\d+(?:\.\d+e\+\d+)?) states, stored", re.MULTILINE)
FOUND = re.compile(r"^pan:\d+: (.*?) \(at depth", re.MULTILINE)


@dataclasses.dataclass
class Verdict:
    holds: bool
    states: str
    found: str
    seconds: float


def check(model, mutant=None):
    """The verdict of Spin on a model, or on one of its mutants."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        define = [f"-D{mutant}"] if mutant else []
        subprocess.run(["spin", "-a", *define, model], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cc", "-O2", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], cwd=folder, check=True)
        done = subprocess.run(["./pan", f"-m{DEPTH_MAX}"], cwd=folder, capture_output=True, text=True, check=False,
                              timeout=SECONDS_MAX)
    errors, states, found = ERRORS.search(done.stdout), STATES.search(done.stdout), FOUND.search(done.stdout)
    complete = "Search not completed" not in done.stdout and "max search depth too small" not in done.stdout
    return Verdict(errors is not None and errors.group(1) == "0" and complete, states.group(1) if states else "?",
                   found.group(1) if found else "", time.monotonic() - began)


def mutants_of(model):
    return sorted(set(re.findall(r"\bMUTANT_\w+", model.read_text(encoding="utf-8"))))


def properties_of(model):
    """Assertions, and that each wait ends."""
    return len(re.findall(r"\bassert\(", model.read_text(encoding="utf-8"))) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="checks side by side, each with up to 2 GiB of memory")
    parser.add_argument("models", nargs="*", metavar="model", help="of tests/model, without .pml; all without any")
    arguments = parser.parse_args()
    models = [FOLDER / f"{name}.pml" for name in arguments.models] or sorted(FOLDER.glob("*.pml"))
    for model in models:
        if not model.exists():
            parser.error(f"model: {model.stem!r} is not there; allowed: "
                         f"{', '.join(path.stem for path in sorted(FOLDER.glob('*.pml')))}")
    failed, refused = 0, 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        tasks = [(model, mutant, pool.submit(check, model, mutant))
                 for model in models for mutant in (None, *mutants_of(model))]
        for model, mutant, task in tasks:
            verdict = task.result()
            good = verdict.holds if mutant is None else bool(verdict.found)
            failed += not good
            refused += good and mutant is not None
            what = f"{verdict.states} states" if mutant is None else f"{mutant.removeprefix('MUTANT_').lower()}"
            said = "holds" if verdict.holds else verdict.found or "not decided"
            print(f"model: {model.stem}: {what}: {said} ({verdict.seconds:.0f} s){'' if good else '  FAILED'}",
                  flush=True)
    print(f"model: {'FAILED' if failed else 'OK'} models={len(models)} properties={sum(map(properties_of, models))} "
          f"traces=0 mutants_refused={refused}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
