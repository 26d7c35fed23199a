#!/usr/bin/env python3
"""Runs mixed load while ports fail for a long time, under AddressSanitizer, then under ThreadSanitizer.

    scripts/soak.py [--seconds N] [--seed N] [--presets dev,tsan]

Runs tests/integration/soak_test.py on what `make soak` has built in build/<preset>. The last line begins
with "soak: OK", or the exit code is not 0.
"""
import argparse
import os
import subprocess
import sys

from run_tests import ROOT, SANITIZER_OPTIONS

SLOWNESS = "4"  # as for the other tests under sanitizers
START_AND_END_SECONDS_MAX = 600


def soak(preset, seconds, seed):
    print(f"soak: {seconds} s, preset {preset}, seed {seed}", flush=True)
    environment = {**SANITIZER_OPTIONS, **os.environ, "SOAK_SECONDS": str(seconds), "SOAK_SEED": str(seed),
                   "FAIRLEAD_BIN": str(ROOT / "build" / preset / "proxy"), "FAIRLEAD_SLOWNESS": SLOWNESS}
    done = subprocess.run([sys.executable, "-B", ROOT / "tests/integration/soak_test.py"], env=environment,
                          stdin=subprocess.DEVNULL, timeout=seconds + START_AND_END_SECONDS_MAX, check=False)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--presets", default="dev,tsan")
    arguments = parser.parse_args()
    for preset in arguments.presets.split(","):
        if code := soak(preset, arguments.seconds, arguments.seed):
            print(f"soak: FAILED, preset {preset}, exit code {code}")
            return 1
    print(f"soak: OK, {arguments.seconds} s each of {arguments.presets}, seed {arguments.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
