#!/usr/bin/env python3
"""Runs real programs directly, then through two proxies as by default, over SMC-R from the first byte and over TCP.

    scripts/programs.py [--short] [--only PROGRAM,...] [--memory SIZE]

What a program finds must be the same on every way: its results, its errors, the tail of its answers, and what the
kernel loses meanwhile (retransmission timeouts, full receive buffers). A rate is shown and not judged. What differs is
repeated twice, because the machine is shared, and is a difference if it differs each time. The last line is "programs:
OK programs=N", or begins with "programs: FAILED" and the exit code is 1. The exit code is 77 if no program could run.
Needs root: each measurement runs in a network namespace of its own. FAIRLEAD_BIN is the folder with fairlead-proxy (default:
build/release/proxy).
"""
import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("FAIRLEAD_BIN", str(ROOT / "build/release/proxy"))
sys.path[1:1] = [str(ROOT / "tests" / folder) for folder in ("programs", "suites")] + [str(ROOT / "tests")]

# pylint: disable=wrong-import-position
from judgement import LOSSES, differences
from kernel_counters import tcp_losses
from place import TRANSPORTS, Place, enter_namespace, reasons_against
from real_programs import PROGRAMS, Failure

SKIPPED = 77
REPETITIONS = 2


def say(text):
    print(f"programs: {text}", flush=True)


def measure(kind, transport, options):
    """Findings of a program over one way."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-program-"))
    place = Place(transport, options.memory)
    try:
        with place:
            program = kind(folder, options.short)
            try:
                program.start()
                before = tcp_losses(LOSSES)
                found = program.measure()
                found.losses = {name: count - before[name] for name, count in tcp_losses(LOSSES).items()}
            finally:
                program.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if place.problems:
        raise Failure(f"a proxy ended otherwise: {place.problems}")
    return found


def measure_or_why(kind, transport, options):
    """(findings, None), or (None, why there are none). In a network namespace of its own: connections that the program
    before has left behind would be counted as well."""
    near, far = multiprocessing.Pipe(duplex=False)

    def run():
        near.close()
        enter_namespace()
        try:
            far.send((measure(kind, transport, options), None))
        except (Failure, subprocess.TimeoutExpired) as failure:
            far.send((None, str(failure)))

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    far.close()
    try:
        return near.recv()
    except EOFError:
        return None, "the measurement ended without findings"
    finally:
        child.join()


def show(name, transport, found, direct):
    tail = "" if found.tail_seconds is None else f"{found.tail_seconds * 1000:.1f} ms"
    lost = " ".join(f"{name}={count}" for name, count in found.losses.items() if count)
    print(f"{name:16} {transport:8} {found.rate:12,.0f} {found.unit:16} {found.rate / direct.rate:5.2f} {tail:>10} "
          f"{found.errors:>6}  {lost}", flush=True)


def compare(kind, options):
    """The ways that differ, with the reasons."""
    direct, why = measure_or_why(kind, "direct", options)
    if why:
        return {"direct": [why]}
    show(kind.name, "direct", direct, direct)
    different = {}
    for transport in TRANSPORTS[1:]:
        for repetition in range(1 + REPETITIONS):
            if repetition:
                again, _ = measure_or_why(kind, "direct", options)
                direct = again or direct
            found, why = measure_or_why(kind, transport, options)
            reasons = [why] if why else differences(direct, found)
            if found:
                show(kind.name, transport, found, direct)
            if not reasons:
                break
            say(f"{kind.name} over {transport}, time {repetition + 1}: {'; '.join(reasons)}")
        else:
            different[transport] = reasons
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a twentieth of the load, as in make test-all")
    parser.add_argument("--only", default="", help=f"of {','.join(PROGRAMS)}")
    parser.add_argument("--memory", default="512MiB", help="memory.limit of the proxies (default: 512MiB)")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(PROGRAMS)
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"no program {name!r}; there are: {', '.join(PROGRAMS)}")
    if reason := reasons_against():
        say(f"skipped: {reason}")
        return SKIPPED
    kinds, skipped = [], []
    for name in names:
        missing = PROGRAMS[name](Path("/"), options.short).missing()
        if missing:
            skipped.append(f"{name}: not installed: {' '.join(missing)}; scripts/bootstrap.sh programs installs all packages")
        else:
            kinds.append(PROGRAMS[name])
    for line in skipped:
        say(f"skipped: {line}")
    if not kinds:
        say("skipped: no program can run here")
        return SKIPPED
    print(f"{'program':16} {'way':8} {'rate':>12} {'':16} {'share':>5} {'tail':>10} {'errors':>6}  losses", flush=True)
    different = {kind.name: found for kind in kinds if (found := compare(kind, options))}
    for name, ways in different.items():
        for transport, reasons in ways.items():
            say(f"different: {name} over {transport}: {'; '.join(reasons)}")
    say(f"{'FAILED' if different else 'OK'} programs={len(kinds)} different={len(different)} skipped={len(skipped)}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
