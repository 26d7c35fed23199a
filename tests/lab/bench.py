#!/usr/bin/env python3
"""Compares speeds in the lab in one run: direct TCP, the kernel's SMC-R, a pair of HAProxy, a pair of Fairlead
proxies, and the device itself.

    tests/lab/bench.py [--reps N] [--secs S] [--mtus 4096,1024]     what `make lab-bench` runs

The processors of the guests are emulated and the RNICs are programs (Soft-RoCE), so only ratios of one run are
meaningful. The report is build/lab/bench.json.
"""
import argparse
import atexit
import json
import shutil
import statistics
import sys
from pathlib import Path

import bench_loads
import initramfs
import kernel
import lab
import scenario
from node import ROOT, LabError
from two_nodes import Lab

sys.path.append(str(ROOT / "tests/bench"))

import report as bench_report  # noqa: E402  that of the other benchmarks

# MTU of RDMA: MTU of the network below it, which needs room for the headers.
WIRE_MTU = {4096: 9000, 1024: 1500}
TARGETS = ("direct", "kernel", "haproxy", "fairlead", "device")
# name, unit, what more is
WORKLOADS = {"bulk": ("MB/s, one stream", "better"), "ping": ("µs, 64 B there and back, p50", "worse"),
             "redis": ("GET/s, 10 clients", "better"),
             "crossing": ("µs, the slowest of 40 round trips of a connection, which earn SMC-R, p50", "worse"),
             "crossing_tail": ("µs, the same, p99", "worse"),
             "setup": ("ms, connect and first answer, over groups and buffers that exist", "worse"),
             "setup_more": ("ms, the same in addition to all that were ever open: buffers must be made", "worse")}
# workload, target to which Fairlead is compared, limit (at least or at most, by the kind of the workload)
MUST_HOLD = (("bulk", "device", 0.8), ("bulk", "kernel", 1.5), ("ping", "kernel", 1.3),
             ("setup", "kernel", 0.5), ("setup_more", "kernel", 0.5))


def measure(stage, samples, options):
    """Appends to samples[workload][target]; targets take turns."""
    routes = bench_loads.Routes(stage, options.folder, options.settings)
    for target in routes.by_name:  # makes groups and buffers, and warms up
        routes.sample("setup", target, options.secs)
    for repetition in range(options.reps):
        for workload in options.workloads.split(","):
            for target in options.targets.split(","):
                if target == "device" and workload not in bench_loads.DEVICE_TESTS:
                    continue
                value = routes.sample(workload, target, options.secs)
                samples[workload].setdefault(target, []).append(value)
                stage.say(f"    {repetition + 1}/{options.reps} {workload} {target} {value:.4g}")
    routes.check()
    stage.finish()


def medians(samples):
    return {workload: {target: statistics.median(values) for target, values in row.items()}
            for workload, row in samples.items() if row}


def judge(middle):
    """Each required ratio: its description, and whether it holds."""
    rows = []
    for workload, other, limit in MUST_HOLD:
        if not {"fairlead", other} <= set(middle.get(workload, ())):
            continue
        ratio = middle[workload]["fairlead"] / middle[workload][other]
        at_least = WORKLOADS[workload][1] == "better"
        rows.append({"workload": workload, "to": other, "ratio": round(ratio, 3),
                     "limit": limit, "at": "least" if at_least else "most",
                     "holds": ratio >= limit if at_least else ratio <= limit})
    return rows


def show(mtu, samples):
    middle = medians(samples)
    print(f"\nRoCE MTU {mtu}; median [least–most]; in brackets behind: ours to this one")
    for workload, row in middle.items():
        print(f"  {workload}: {WORKLOADS[workload][0]}")
        for target, value in row.items():
            values = samples[workload][target]
            ratio = f"({row['fairlead'] / value:.2f})" if "fairlead" in row else ""
            print(f"    {target:10} {value:10.4g} [{min(values):.4g}–{max(values):.4g}]  {ratio}")
    for row in judge(middle):
        print(f"  {'holds' if row['holds'] else 'DOES NOT HOLD'}: {row['workload']} is {row['ratio']} of "
              f"{row['to']}, at {row['at']} {row['limit']}", flush=True)


def run(options, mtu):
    made = Lab(options.folder, initramfs.build, lab.say, WIRE_MTU[mtu])
    atexit.register(made.close)
    stage = scenario.Stage(made)
    stage.name = f"bench{mtu}"
    for node in made.nodes:
        stage.prepare(node)
    samples = {workload: {} for workload in WORKLOADS}
    try:
        measure(stage, samples, options)
    finally:
        made.close()
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/lab")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--secs", type=float, default=2, help="length of a sample")
    parser.add_argument("--mtus", default="4096,1024", help=f"of {', '.join(map(str, WIRE_MTU))}")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON",
                        help="more configuration of our proxies")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    lab.end_on_signals()
    units = {name: unit for name, (unit, _) in WORKLOADS.items()}
    report = {"about": {**bench_report.about(ROOT), "seconds": options.secs, "units": units}, "mtu": {}}
    try:
        if shutil.which("qemu-system-x86_64") is None:
            raise kernel.Unavailable("no qemu-system-x86_64; scripts/bootstrap.sh lab installs it")
        for mtu in map(int, options.mtus.split(",")):
            samples = run(options, mtu)
            report["mtu"][mtu] = {"samples": samples, "medians": medians(samples),
                                  "must_hold": judge(medians(samples))}
            show(mtu, samples)
    except kernel.Unavailable as error:
        print(f"lab-bench: cannot run here: {error}")
        return lab.SKIPPED
    except LabError as error:
        print(f"lab-bench: {error}")
        return 1
    path = options.folder / "bench.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nreport: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
