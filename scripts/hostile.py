#!/usr/bin/env python3
"""Attacks a pair of pods with hostile sidecars, and the node agent, on the AddressSanitizer build and on the optimised build.

    scripts/hostile.py [--seeds 1000] [--first-seed 1] [--builds dev,release] [--jobs 1] [--only neighbour|agent]

Each build runs all seeds against the pair, distributed over JOBS concurrent pairs of pods, and then all seeds against one
agent and its sockets (tests/hostile/agent_test.py). The last line is
"hostile: OK seeds=N longest_gap_ms=N control_ms=N": the seeds of each build, the longest round trip of a pair under
attack, and the longest one without an attacker. A run against the agent alone has no round trips to print. Before that
line stand the kinds of attack of each pair, and how often each was drawn and reached the state that it is meant for.
Each seed writes how to run it again, and a failed run names the seeds of its block.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys

from run_tests import ROOT, SANITIZER_OPTIONS

SLOWNESS = {"dev": "4", "release": "1"}
RESULT = re.compile(r"^hostile: OK seeds=(\d+) longest_gap_ms=(\d+) control_ms=(\d+)$")


def run_build(build_name, seeds, first_seed, jobs):
    """The figures of one build, or None if it failed."""
    firsts = [first_seed + seeds * job // jobs for job in range(jobs + 1)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda job: run(build_name, firsts[job + 1] - firsts[job], firsts[job]), range(jobs)))
    if None in parts:
        return None
    counts, gaps, controls = zip(*parts)
    return [sum(counts), max(gaps), max(controls)]


def environment_of(build_name, what, seeds, first_seed):
    build = ROOT / "build" / build_name
    return {**SANITIZER_OPTIONS, **os.environ, f"{what}_SEEDS": str(seeds), f"{what}_FIRST_SEED": str(first_seed),
            "FAIRLEAD_CNI": str(build / "cni/fairlead-cni"), "FAIRLEAD_NODE": str(build / "cni/fairlead-node"),
            "FAIRLEAD_BIN": str(build / "proxy"), "FAIRLEAD_SLOWNESS": SLOWNESS[build_name]}


def attack_agent(build_name, seeds, first_seed):
    """False if the agent or its honest pods did not stand it."""
    print(f"hostile: {seeds} seeds from {first_seed} at the agent of {build_name}", flush=True)
    done = subprocess.run([sys.executable, "-B", ROOT / "tests/hostile/agent_test.py"], check=False,
                          env=environment_of(build_name, "AGENT", seeds, first_seed))
    return done.returncode == 0


def run(build_name, seeds, first_seed):
    """The figures of the pair that runs these seeds, or None if it failed."""
    environment = environment_of(build_name, "HOSTILE", seeds, first_seed)
    print(f"hostile: {seeds} seeds from {first_seed} on {build_name}", flush=True)
    found = None
    with subprocess.Popen([sys.executable, "-B", ROOT / "tests/hostile/hostile_test.py"], env=environment,
                          stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            match = RESULT.match(line.strip())
            if match:
                found = [int(group) for group in match.groups()]
            else:
                print(line, end="", flush=True)
    return found if process.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--builds", default="dev,release")
    parser.add_argument("--jobs", type=int, default=1, help="pairs of pods that are attacked side by side")
    parser.add_argument("--only", choices=("neighbour", "agent"), help="attack the pair, or the agent, alone")
    arguments = parser.parse_args()
    if not 1 <= arguments.jobs <= arguments.seeds:
        parser.error(f"--jobs: {arguments.jobs} is not allowed; allowed: 1 to --seeds, {arguments.seeds}")
    results = []
    for build_name in arguments.builds.split(","):
        if build_name not in SLOWNESS:
            parser.error(f"--builds: {build_name!r} is not allowed; allowed: {', '.join(SLOWNESS)}")
        if arguments.only != "agent":
            results.append(run_build(build_name, arguments.seeds, arguments.first_seed, arguments.jobs))
        if arguments.only != "neighbour" and not attack_agent(build_name, arguments.seeds, arguments.first_seed):
            results.append(None)
    if None in results:
        print(f"hostile: FAILED seeds={arguments.seeds} first_seed={arguments.first_seed}", flush=True)
        return 1
    figures = "".join(f" {name}={max(result[at] for result in results)}"
                      for at, name in ((1, "longest_gap_ms"), (2, "control_ms")) if results)
    print(f"hostile: OK seeds={arguments.seeds}{figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
