#!/usr/bin/env python3
"""The lab: two virtual machines with Debian's kernel, Soft-RoCE, and the kernel's own SMC as a peer.

    tests/lab/lab.py [--only NAME …]     run the scenarios, or those whose names have a NAME in them;
                                         --repeat TIMES: that often
    tests/lab/lab.py --list              name the scenarios
    tests/lab/lab.py --run 'COMMAND'     run a shell command in node a, print its output, exit with its code
    tests/lab/lab.py --shell             boot, then read lines "a COMMAND" or "b COMMAND"

Exit codes: 0 success, 1 failure, 77 the lab cannot run here (the last line gives the reason). Up to three failed
scenarios are repeated once, and listed at the end.
"""
import argparse
import atexit
import os
import shutil
import sys
import time
from pathlib import Path

import initramfs
import kernel
import scenario
import scenarios_devices  # noqa: F401  an import registers the scenarios in it
import scenarios_self  # noqa: F401
import scenarios_interop  # noqa: F401
import scenarios_sockets  # noqa: F401
import scenarios_fallback  # noqa: F401
import scenarios_pods  # noqa: F401
import scenarios_encryption  # noqa: F401
import scenarios_wire  # noqa: F401
import scenarios_version_1  # noqa: F401
import scenarios_ends  # noqa: F401
import scenarios_verbs  # noqa: F401
import scenarios_links  # noqa: F401
import scenarios_hand_over  # noqa: F401
import scenarios_fabric  # noqa: F401
from console import BEGUN, SKIPPED, end_on_signals, play, say
from node import LabError
from two_nodes import Lab

ROOT = Path(__file__).resolve().parents[2]
# An emulated machine on busy processors may stop for seconds, long enough for an RNIC to give up its peer. A few
# failed scenarios are repeated once. Many failures have another cause.
SECOND_TRIES_MAX = 3


def boot(arguments):
    if shutil.which("qemu-system-x86_64") is None:
        raise kernel.Unavailable("no qemu-system-x86_64; scripts/bootstrap.sh lab installs it")
    lab = Lab(arguments.folder, initramfs.build, say, arguments.mtu)
    atexit.register(lab.close)
    return lab


def run_command(lab, command, timeout):
    process = lab.nodes[0].start(["/bin/sh", "-c", f'cd "$0" && {command}', os.getcwd()])
    code = process.wait(timeout)
    sys.stdout.write(process.output)
    return code if code >= 0 else 128 - code


def shell(lab):
    print('type "a COMMAND" or "b COMMAND"; end with ctrl-D', flush=True)
    for line in sys.stdin:
        name, _, command = line.strip().partition(" ")
        node = next((node for node in lab.nodes if node.name == name), None)
        if node is None or not command:
            print('"a COMMAND" or "b COMMAND"', flush=True)
            continue
        process = node.start(["/bin/sh", "-c", command])
        try:
            code = process.wait(600)
            print(process.output + (f"exit {code}" if code else ""), flush=True)
        except LabError as error:
            print(error, flush=True)
    return 0


def set_stage(lab):
    stage = scenario.Stage(lab)
    for node in lab.nodes:
        stage.prepare(node)
    return stage


def run_twice(stage, chosen, deadline):
    """(names of failed scenarios, names of those that failed only the first time)"""
    failed = run_scenarios(stage, chosen, deadline)
    again = [function for function in chosen if function.__name__ in failed]
    if not 0 < len(again) <= SECOND_TRIES_MAX:
        return failed, []
    say("once more: " + " ".join(function.__name__ for function in again))
    still = run_scenarios(stage, again, deadline)
    return still, sorted(set(failed) - set(still))


def run_scenarios(stage, chosen, deadline):
    """The names of those that failed."""
    failed = []
    for function in chosen:
        name = function.__name__
        if time.monotonic() - BEGUN > deadline:
            failed.append(name)
            say(f"FAILED {name}: not begun, the lab's {deadline:.0f} s are over")
            continue
        stage.name = name
        if not play(function, stage, LabError):
            failed.append(name)
        if name in failed and any([node.has_died() for node in stage.lab.nodes]):
            # This happens occasionally under emulation.
            say("the kernel of a node has died, see its console; both are switched off and on")
            stage.restart()
            continue
        try:
            stage.finish(failed=name in failed)
        except LabError as error:
            failed.append(name)
            say(f"FAILED {name}: {error}")
    return failed


def choose(names):
    chosen = [function for function in scenario.SCENARIOS
              if not names or any(name in function.__name__ for name in names)]
    if not chosen:
        raise LabError(f"no scenario has one of {' '.join(names)} in its name")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/lab")
    parser.add_argument("--mtu", type=int, default=9000, help="of the wire; RDMA takes what fits")
    parser.add_argument("--run", metavar="COMMAND")
    parser.add_argument("--timeout", type=float, default=540, help="seconds for --run")
    parser.add_argument("--shell", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--repeat", type=int, default=1, metavar="TIMES")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--deadline", type=float, default=3000, help="seconds; no scenario begins later")
    arguments = parser.parse_args()
    if arguments.list:
        for function in scenario.SCENARIOS:
            print(f"{function.__name__}: {function.__doc__}")
        return 0
    arguments.folder = arguments.folder.resolve()
    end_on_signals()
    try:
        chosen = choose(arguments.only) * arguments.repeat
        lab = boot(arguments)
        if arguments.run:
            return run_command(lab, arguments.run, arguments.timeout)
        if arguments.shell:
            return shell(lab)
        failed, shaky = run_twice(set_stage(lab), chosen, arguments.deadline)
        if os.environ.get("LAB_KEEP"):
            shell(lab)
        tries = f", at the second try: {' '.join(shaky)}" if shaky else ""
        print((f"lab: FAILED {' '.join(failed)}" if failed else f"lab: OK {len(chosen)} scenarios")
              + tries)
        return 1 if failed else 0
    except kernel.Unavailable as error:
        print(f"lab: cannot run here: {error}")
        return SKIPPED
    except LabError as error:
        print(f"lab: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
