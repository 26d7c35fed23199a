#!/usr/bin/env python3
"""Checks the models of the protocol with Spin, exhaustively within their bounds, and with what the program did.

    tests/model/run.py [--jobs N] [--seeds N] [--simulate PROGRAM] [model …]     what `make model` runs

Each model is checked as it is, then with one defect after the other built in, its mutants. A mutant that passes is an
error: the model would not notice that defect in the program. Then simulations write what they do, and captures of kernels
are read; each trace has to be a path of the model. Traces that are altered by hand have to be refused. The last line is
"model: OK models=N properties=N traces=N mutants_refused=N", where altered traces count as mutants.
docs/verification.md says what that means.
"""
import argparse
import concurrent.futures
import dataclasses
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import close_traces
import failover_traces
import frames_traces
import link_group_traces
import recorded

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
SIMULATE = ROOT / "build" / "release" / "tests" / "sim" / "simulate"
# What is known of the traces of a model: how they are made of a recording, and how they are altered by hand.
FOLLOWED = {"close": close_traces, "failover": failover_traces, "frames": frames_traces,
            "link_group": link_group_traces}
# Seeds in which proxies are replaced, so that connections return to frames: followed by these models, too.
RETURNING_SEEDS_BEGIN, RETURNING_SEEDS_ONE_IN = 2_000_000_000_000, 10
RETURNING = ("frames",)
CAPTURES = ROOT / "tests" / "captures"
# Of one link group, in the order in which they were made.
CAPTURED = ("first-contact-two-rnics", "second-connection-reuse", "two-connections-abort", "bulk-200k", "link-failover")
SECONDS_MAX = 900  # of one check
TRACE_SECONDS_MAX = 60
DEPTH_MAX = 100_000
TRACE_DEPTH_MAX = 1_000_000
# In 4 Mi bits; neither a wait without end nor an error ends the search for a way through the trace.
FOLLOW = ("-w22", "-E", "-c0")
# What nearly every trace needs for a line. The memory of the deepest search takes longer than the search.
TRACE_DEPTH_OF_LINE, TRACE_DEPTH_MIN = 100, 10_000
# Traces of one seed and model that are followed: most of their paths are alike.
TRACES_PER_SEED_MAX = 2
REFUSED_SHOWN_MAX = 5
ERRORS = re.compile(r"errors: (\d+)")
STATES = re.compile(r"^ *(\d+(?:\.\d+e\+\d+)?) states, stored", re.MULTILINE)
FOUND = re.compile(r"^pan:\d+: (.*?) \(at depth", re.MULTILINE)
ACCEPTED = re.compile(r"^trace: accepted \d+$", re.MULTILINE)
POSSIBLE = re.compile(r"^trace: (\d+) of \d+ lines were possible$", re.MULTILINE)
SKIPPED = 77
NO_TRACE = 3  # the status of a model that is given something else


@dataclasses.dataclass
class Verdict:
    holds: bool
    states: str
    found: str
    seconds: float


def compiled(model, folder, defines, options):
    """The checker that Spin makes of a model."""
    subprocess.run(["spin", "-a", *(f"-D{name}" for name in defines), model], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cc", "-w", *options, "-o", "pan", "pan.c"], cwd=folder, check=True)
    return Path(folder) / "pan"


def check(model, mutant=None):
    """The verdict of Spin on a model, or on one of its mutants."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        # A mutant is found out soon: to optimise its checker takes longer than its search.
        pan = compiled(model, folder, [mutant] if mutant else [],
                       ["-O0" if mutant else "-O2", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=4000"])
        done = subprocess.run([pan, f"-m{DEPTH_MAX}"], cwd=folder, capture_output=True, text=True, check=False,
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


def check_models(models, jobs):
    """(errors, refused mutants)"""
    failed, refused = 0, 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
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
    return failed, refused


class Follower:
    """Says whether a trace is a path of one model."""

    def __init__(self, model, folder):
        self.folder = Path(folder) / model.stem
        self.folder.mkdir()
        self.pan = compiled(model, self.folder, ["TRACE"], ["-O2", "-DSAFETY", "-DBITSTATE", "-DNOREDUCE", "-DVECTORSZ=65536"])

    def possible(self, lines):
        """How many of the lines are possible one after the other: all of them, if the trace is accepted."""
        with tempfile.NamedTemporaryFile("w", suffix=".trace", dir=self.folder) as file:
            file.writelines(" ".join(map(str, line)) + "\n" for line in lines)
            file.flush()
            known = 0
            for depth in (TRACE_DEPTH_OF_LINE * len(lines) + TRACE_DEPTH_MIN, TRACE_DEPTH_MAX):
                known = self.search(file.name, len(lines), min(depth, TRACE_DEPTH_MAX))
                if known == len(lines):
                    break
            return known

    def search(self, trace, length, depth):
        done = subprocess.run([self.pan, f"-m{depth}", *FOLLOW], cwd=self.folder, capture_output=True, text=True,
                              env={"TRACE_FILE": trace}, check=False, timeout=TRACE_SECONDS_MAX)
        if done.returncode == NO_TRACE:
            raise recorded.NoRecording(done.stdout.strip())
        if ACCEPTED.search(done.stdout):
            return length
        known = POSSIBLE.search(done.stdout)
        return int(known.group(1)) if known else 0


def simulated(program, seeds, first=1):
    """(name, recording) of each seed."""
    command = [program, "--quiet", "--seeds", str(seeds), "--first-seed", str(first), "--events", "/dev/stderr"]
    with subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        for seed, recording in recorded.simulated(process.stderr):
            recording.returns = first == RETURNING_SEEDS_BEGIN
            yield f"seed {seed}", recording
        if process.wait() != 0:
            raise recorded.NoRecording(f"{program} has failed")


def captured():
    """The recording of kernels."""
    yield "captures", recorded.captured([(CAPTURES / f"{name}.pcap").read_bytes() for name in CAPTURED])


def follow_traces(models, recordings, jobs):
    """(errors, traces, refused alterations)"""
    failed, counts, refused = 0, {}, 0
    models = [model for model in models if model.stem in FOLLOWED]
    altered = {model.stem: dict(FOLLOWED[model.stem].ALTERATIONS) for model in models}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        followers = {model.stem: Follower(model, folder) for model in models}

        def follow(model, name, lines):
            known = followers[model].possible(lines)
            if known != len(lines):
                return f"{model}: {name}: line {known + 1} of {len(lines)} is not possible: {lines[known]}"
            return ""

        def batches():
            for name, recording in recordings:
                for model in followers:
                    if recording.returns and model not in RETURNING:
                        continue
                    for number, lines in enumerate(FOLLOWED[model].traces(recording)):
                        if number == TRACES_PER_SEED_MAX and not recording.of_kernels:
                            break
                        counts[model] = counts.get(model, 0) + 1
                        for what, alter in list(altered[model].items()):
                            changed = alter(lines)
                            if changed is not None:
                                del altered[model][what]
                                yield model, what, pool.submit(followers[model].possible, changed), len(changed)
                        yield model, None, pool.submit(follow, model, name, lines), len(lines)

        pending = list(batches())
        for model, what, task, length in pending:
            result = task.result()
            if what is not None:
                good = result < length
                refused += good
                failed += not good
                print(f"model: {model}: a trace with {what}: "
                      f"{f'refused at line {result + 1} of {length}' if good else 'accepted  FAILED'}", flush=True)
            elif result:
                failed += 1
                if failed <= REFUSED_SHOWN_MAX:
                    print(f"model: {result}  FAILED", flush=True)
    for model, left in altered.items():
        for what in left:
            failed += 1
            print(f"model: {model}: no trace to build in: {what}  FAILED", flush=True)
    for model, count in counts.items():
        print(f"model: {model}: {count} traces of the program", flush=True)
    return failed, sum(counts.values()), refused


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="checks side by side, each with up to 4 GiB of memory")
    parser.add_argument("--seeds", type=int, default=1000, help="simulations whose traces are followed")
    parser.add_argument("--simulate", type=Path, default=SIMULATE, help="the program that simulates")
    parser.add_argument("--traces-only", action="store_true", help="follow traces, and do not check the models")
    parser.add_argument("models", nargs="*", metavar="model", help="of tests/model, without .pml; all without any")
    arguments = parser.parse_args()
    models = [FOLDER / f"{name}.pml" for name in arguments.models] or sorted(FOLDER.glob("*.pml"))
    for model in models:
        if not model.exists():
            parser.error(f"model: {model.stem!r} is not there; allowed: "
                         f"{', '.join(path.stem for path in sorted(FOLDER.glob('*.pml')))}")
    if shutil.which("spin") is None:
        print("model: skipped: spin is not installed; scripts/bootstrap.sh model")
        return SKIPPED
    if arguments.seeds > 0 and not arguments.simulate.exists():
        parser.error(f"--simulate: {arguments.simulate} is not there; build it, or follow no traces with --seeds 0")
    failed, refused = (0, 0) if arguments.traces_only else check_models(models, arguments.jobs)
    traces = 0
    if arguments.seeds > 0:
        try:
            recordings = [captured(), simulated(arguments.simulate, arguments.seeds)]
            if any(model.stem in RETURNING for model in models):
                more = -(-arguments.seeds // RETURNING_SEEDS_ONE_IN)
                recordings.append(simulated(arguments.simulate, more, RETURNING_SEEDS_BEGIN))
            more, traces, altered = follow_traces(models, itertools.chain(*recordings), arguments.jobs)
        except recorded.NoRecording as error:
            more, altered = 1, 0
            print(f"model: {error}  FAILED", flush=True)
        failed, refused = failed + more, refused + altered
    print(f"model: {'FAILED' if failed else 'OK'} models={len(models)} properties={sum(map(properties_of, models))} "
          f"traces={traces} mutants_refused={refused}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
