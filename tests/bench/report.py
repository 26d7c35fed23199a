"""Computes the report from samples: medians, spans, ratios within the run, and noise."""

import json
import os
import shlex
import statistics
import subprocess
import sys
import time

import workloads

BASES = {"ratio_direct": "direct", "ratio_haproxy": "haproxy",
         "ratio_haproxy_tuned": "haproxy-128k"}
COLUMNS = (("/direct", "ratio_direct"), ("/haproxy", "ratio_haproxy"),
           ("/128k", "ratio_haproxy_tuned"))


def collect(samples):
    """{(workload, metric): {target: [values]}} of the samples without an error."""
    values = {}
    for sample in samples:
        if sample.error:
            continue
        for metric, value in sample.metrics.items():
            per_target = values.setdefault((sample.workload, metric), {})
            per_target.setdefault(sample.target, []).append(value)
    return values


def rows(samples):
    noisy = {}
    for sample in samples:
        if sample.noisy and not sample.error:
            key = sample.workload, sample.target
            noisy[key] = noisy.get(key, 0) + 1
    result = []
    for (workload, metric), per_target in collect(samples).items():
        medians = {target: statistics.median(found) for target, found in per_target.items()}
        for target, found in per_target.items():
            row = {"workload": workload, "metric": metric, "target": target,
                   "median": medians[target], "min": min(found), "max": max(found)}
            for name, base in BASES.items():
                row[name] = medians[target] / medians[base] if medians.get(base) else None
            row["samples"] = len(found)
            row["noisy_samples"] = noisy.get((workload, target), 0)
            result.append(row)
    return result


def noise(samples, retaken):
    """Disturbance of the run by other programs, and the spread of repetitions."""
    repeated = [sample for sample in samples if sample.busy > 0]
    if not repeated:
        return {}
    others = sorted(sample.others_cpus for sample in repeated)
    spreads = [(max(found) - min(found)) / statistics.median(found)
               for (_, metric), per_target in collect(samples).items()
               if metric in ("GBps", "p50_us", "cps", "get_kops")
               for found in per_target.values() if len(found) > 1 and statistics.median(found)]
    return {
        "steal_share": sum(s.steal for s in repeated) / sum(s.busy for s in repeated),
        "others_cpus_median": statistics.median(others),
        "others_cpus_p90": others[len(others) * 9 // 10], "others_cpus_max": others[-1],
        "samples": len(repeated), "samples_retaken": retaken,
        "samples_kept_noisy": sum(sample.noisy for sample in repeated),
        "spread_median": statistics.median(spreads) if spreads else None,
        "spread_max": max(spreads) if spreads else None}


def failures(samples):
    return [{"target": s.target, "workload": s.workload, "repetition": s.repetition,
             "error": s.error} for s in samples if s.error]


def about(root):
    """Targets, time, machine and command of the measurement."""
    commit = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False).stdout.strip()
    return {"commit": commit or "unknown",
            "date": time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()),
            "command": shlex.join(sys.argv), "kernel": os.uname().release, "cpus": os.cpu_count()}


def write(path, samples, about_run, retaken, unusable, complete):
    report = {"rows": rows(samples), "about": about_run, "noise": noise(samples, retaken),
              "failures": failures(samples), "left_out": unusable, "complete": complete}
    write_json(path, report)
    return report


def write_json(path, report):
    """Replaces the file as a whole, so that a reader never sees half of one."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def number(value):
    if value is None:
        return "-"
    magnitude = abs(value)
    return f"{value:.0f}" if magnitude >= 1000 else f"{value:.{1 if magnitude >= 100 else 3}f}"


def is_headline(row):
    base = row["workload"].partition("-")[0]
    return row["metric"] in workloads.HEADLINES.get(base, ())


def print_table(report, every_metric=False):
    print(f"{'workload':13}{'metric':17}{'target':17}{'median':>9} {'min .. max':>19}"
          + "".join(f"{title:>10}" for title, _ in COLUMNS))
    last = None
    for row in report["rows"]:
        if not every_metric and not is_headline(row):
            continue
        group = row["workload"], row["metric"]
        if last not in (None, group):
            print()
        last = group
        span = f"{number(row['min'])} .. {number(row['max'])}"
        remark = ""
        if row["noisy_samples"]:
            remark = f"  noisy: {row['noisy_samples']} of {row['samples']}"
        ratios = "".join(f"{number(row[name]):>10}" for _, name in COLUMNS)
        print(f"{group[0]:13}{group[1]:17}{row['target']:17}{number(row['median']):>9} {span:>19}"
              f"{ratios}{remark}")
    for failure in report["failures"]:
        print("FAILED {target} {workload} repetition {repetition}: {error}".format(**failure))
    for name, reason in report["left_out"].items():
        print(f"left out: {name}: {reason}")
    print_noise(report)


def print_noise(report):
    about, found = report["about"], report["noise"]
    print(f"\ncommit {about['commit']}, {about['date']}, kernel {about['kernel']}, "
          f"{about['cpus']} CPUs, {about['congestion_control']}, placement {about['pin']}, "
          f"{about['secs']} s a sample")
    print(f"command: {about['command']}")
    if not found:
        return
    print(f"noise: steal {100 * found['steal_share']:.2f} % of busy time; CPUs used by others: "
          f"median {found['others_cpus_median']:.2f}, p90 {found['others_cpus_p90']:.2f}, "
          f"max {found['others_cpus_max']:.2f}")
    print(f"       {found['samples_retaken']} samples taken again, {found['samples_kept_noisy']} "
          f"of {found['samples']} kept although noisy")
    if found["spread_median"] is not None:
        print(f"       (max - min) / median of the headlines: median "
              f"{100 * found['spread_median']:.0f} %, max {100 * found['spread_max']:.0f} %")
