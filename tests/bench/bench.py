#!/usr/bin/env python3
"""Compares Fairlead with direct TCP and with other sidecars, side by side in one run.

  app -> sidecar A -> sidecar B -> app, two pods on one host. Needs root. See README.md beside this.

  bench.py                      what `make bench` runs; the report is build/bench/report.json
  bench.py --quick              the same in a minute or two, for a first look
  bench.py --only direct,haproxy,fairlead --workloads bulk1,pp64 --reps 9
  bench.py --pair 'mine|A|B'    one more pair, by commands; README.md lists the placeholders
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys

import report
import targets as target_list
import workloads
from pods import CONNECTIONS_MAX
from runner import Pass, Runner, installed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEFAULT_WORKLOADS = "bulk1,bulk8,pp64,pp4k,crr,first,redis,mem1k"
QUICK_WORKLOADS = "bulk1,pp64,crr,redis"
AWAKE_TARGETS = ("direct", "haproxy", "fairlead")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="few and short samples: a first look, no evidence")
    add("--only", help="names of targets, comma-separated; default: all built-in ones and yours")
    add("--workloads", help=f"of {', '.join(workloads.ALL)}; default {DEFAULT_WORKLOADS}")
    add("--reps", type=int, help="repetitions (default 6, quick 2)")
    add("--secs", type=float, help="length of a sample (default 1.2, quick 0.4)")
    add("--redis-n", type=int, help="requests of a redis sample (default 40000, quick 10000)")
    add("--pair", action="append", default=[], help="'name|CMD_A|CMD_B', repeatable")
    add("--targets-file", help="JSON list of further targets")
    add("--proxy", default=target_list.proxy_path(ROOT), help="path of fairlead-proxy")
    add("--out", default=os.path.join(ROOT, "build", "bench", "report.json"))
    add("--pin", choices=["split", "free", "one"], default="split",
        help="split: pod A on CPU 0, pod B on CPU 1; one: all on CPU 0")
    add("--nohalt", choices=["extra", "only", "off"], default="extra",
        help="extra: a second pass of pp64 with CPUs that never halt; only: all of the run so")
    add("--cc", default="cubic,reno", help="congestion control: the first one allowed")
    add("--quiet", type=float, default=0.3,
        help="a sample in which others used more CPUs than this is taken again")
    add("--wait", type=float, help="seconds to wait for a quiet machine (default 5, quick 1)")
    add("--pause", type=float, default=0.2, help="seconds between samples")
    add("--send-bytes", type=int, default=131072, help="of one send(2) of the bulk loads")
    add("--all-metrics", action="store_true", help="print every metric, not only the headlines")
    add("--keep", action="store_true", help="keep the scratch folder with configurations and logs")
    options = parser.parse_args()
    defaults = {"reps": (6, 2), "secs": (1.2, 0.4), "redis_n": (40000, 10000), "wait": (5.0, 1.0),
                "workloads": (DEFAULT_WORKLOADS, QUICK_WORKLOADS)}
    for name, (normal, quick) in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else normal)
    options.connections_max = CONNECTIONS_MAX
    options.workloads = tuple(options.workloads.split(","))
    unknown = [name for name in options.workloads if name not in workloads.ALL]
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}")
    return options


def choose_targets(options):
    """The targets of the run, in order. Stops the program for a name that does not exist."""
    known = target_list.built_in(options.proxy)
    for text in options.pair:
        name, a, b = text.split("|")
        known.append(target_list.from_texts(name, a, b))
    if options.targets_file:
        known += target_list.read_targets_file(options.targets_file)
    if not options.only:
        return known
    by_name = {target.name: target for target in known + target_list.extra(options.proxy)}
    names = options.only.split(",")
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.exit(f"no such target: {', '.join(unknown)}; there are {', '.join(by_name)}")
    return [by_name[name] for name in names]


def choose_passes(options):
    if options.nohalt == "only":
        return [Pass(options.workloads, options.reps, cpus_awake=True, suffix="-nohalt")]
    passes = [Pass(options.workloads, options.reps)]
    if options.nohalt == "extra" and "pp64" in options.workloads:
        passes.append(Pass(("pp64",), options.reps, AWAKE_TARGETS, True, "-nohalt"))
    return passes


def check_means(options):
    """Stops the program if it cannot run; drops workloads without their program."""
    if os.geteuid() != 0:
        sys.exit("bench.py needs root: it makes network namespaces")
    missing = installed("ip", "taskset", "chrt", "sysctl", "cc")
    if missing:
        sys.exit(f"missing: {', '.join(missing)} "
                 "(packages iproute2, util-linux, procps, gcc)")
    if workloads.needs_redis(options.workloads) and installed("redis-server", "redis-benchmark"):
        print("left out: redis is not installed", file=sys.stderr)
        options.workloads = tuple(w for w in options.workloads if w not in workloads.REDIS)
    if options.pin == "split" and (os.cpu_count() or 1) < 2:
        print("one CPU only: placement is free, not split", file=sys.stderr)
        options.pin = "free"


def describe(options, congestion_control):
    return report.about(ROOT) | {
        "congestion_control": congestion_control, "pin": options.pin, "secs": options.secs,
        "reps": options.reps, "quick": options.quick}


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    options = parse_arguments()
    check_means(options)
    targets = choose_targets(options)
    signal.signal(signal.SIGTERM, interrupt)
    runner = Runner(options, targets, choose_passes(options))
    complete = False
    try:
        about = describe(options, runner.open())

        def write(is_complete):
            return report.write(options.out, runner.samples, about, runner.retaken(),
                                runner.unusable, is_complete)

        runner.measure(on_progress=lambda: write(False))
        complete = True
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{shlex.join(error.cmd)}: {(error.output or '').strip()}")
    finally:
        # A second interrupt must not leave namespaces and processes behind.
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, signal.SIG_IGN)
        runner.close()
    if not runner.samples:
        return 1
    result = write(complete)
    report.print_table(result, options.all_metrics)
    print(f"report: {options.out}")
    named = set((options.only or "").split(","))
    broken = [name for name, reason in runner.unusable.items()
              if name in named or not reason.endswith("is not there")]
    return 0 if complete and result["rows"] and not result["failures"] and not broken else 1


if __name__ == "__main__":
    sys.exit(main())
