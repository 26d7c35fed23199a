#!/usr/bin/env python3
"""The lab: two virtual machines with Debian's kernel, Soft-RoCE, and the kernel's own SMC as a peer.

    tests/lab/lab.py --run 'COMMAND'     run a shell command in node a, say its output, end with its code
    tests/lab/lab.py --shell             boot, then read lines "a COMMAND" or "b COMMAND"

Exit codes: 0 all is well, 1 not, 77 the lab cannot run here (the last line says why).
"""
import argparse
import atexit
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import initramfs
import kernel
from node import Lab, LabError

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
BEGUN = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - BEGUN:5.1f}] {text}", flush=True)


def end_on_signal(number, _):
    raise SystemExit(128 + number)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/lab")
    parser.add_argument("--mtu", type=int, default=9000, help="of the wire; RDMA takes what fits")
    parser.add_argument("--run", metavar="COMMAND")
    parser.add_argument("--timeout", type=float, default=540, help="seconds for --run")
    parser.add_argument("--shell", action="store_true")
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end_on_signal)
    try:
        lab = boot(arguments)
        if arguments.run:
            return run_command(lab, arguments.run, arguments.timeout)
        return shell(lab)
    except kernel.Unavailable as error:
        print(f"lab: cannot run here: {error}")
        return SKIPPED
    except LabError as error:
        print(f"lab: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
