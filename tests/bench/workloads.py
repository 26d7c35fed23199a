"""The loads, and the evaluation of their output.

  bulk1 bulk8    one way over 1 or 8 connections, byte counts verified
  pp64 pp4k      ping-pong of 64 B or 4 KB on one connection, echoes verified
  pace64         ping-pong with 1 ms between: what a wake-up costs
  crr            connect, 64 B, close, by 8 workers
  crr1k … crr1m  the same with requests and responses of 1 KB, 16 KB, 64 KB, 256 KB or 1 MB
  first          the same with 64 B, by one worker: what one connection costs an application
  talk           connections with 40 round trips of 64 B, by one worker: the slowest of each
  redis          redis-benchmark, 50 clients, GET and SET; redisp16 pipelines 16 of them
  mem1k mem10k   idle connections; what they cost in memory (not repeated)
"""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Resources that one sample used."""
    side: float        # CPU seconds of both sidecars
    machine: float     # CPU seconds of everything except the benchmark's spinners
    side_switches: int
    wire_bytes: int    # that reached pod B over the network


LOADGEN = {
    "bulk1": ("bulk", "1"), "bulk8": ("bulk", "8"), "pp64": ("pp", "64"), "pp4k": ("pp", "4096"),
    "pace64": ("pp", "64"), "crr": ("crr", "8"), "first": ("crr", "1"),
    "talk": ("talk", "40"),
}
REQUESTS = {"crr1k": 1 << 10, "crr16k": 16 << 10, "crr64k": 64 << 10, "crr256k": 256 << 10, "crr1m": 1 << 20}
LOADGEN |= {name: ("crr", "8") for name in REQUESTS}
REDIS = {"redis": 1, "redisp16": 16}  # pipelined requests
IDLE = {"mem1k": 1000, "mem10k": 10000}
ALL = (*LOADGEN, *REDIS, *IDLE)

# Metrics of the short table; the report has every metric.
HEADLINES = {
    "bulk1": ("GBps", "side_s_per_GB"), "bulk8": ("GBps", "side_s_per_GB"),
    "pp64": ("p50_us", "p99_us", "side_us_per_rtt"),
    "pp4k": ("p50_us", "p99_us", "side_us_per_rtt"),
    "pace64": ("p50_us", "p99_us", "side_us_per_rtt"),
    "crr": ("cps", "side_us_per_conn"), "first": ("first_p50_us", "whole_p50_us"),
    "talk": ("trip_p50_us", "slowest_p50_us", "slowest_p99_us"),
    **{name: ("cps", "whole_p50_us", "whole_p99_us", "side_us_per_conn") for name in REQUESTS},
    "redis": ("set_kops", "get_kops", "get_p99_us", "side_us_per_op"),
    "redisp16": ("set_kops", "get_kops", "side_us_per_op"),
    "mem1k": ("side_kb_per_conn", "idle_cpu_pct"), "mem10k": ("side_kb_per_conn", "idle_cpu_pct"),
}


def needs_redis(workloads):
    return any(workload in REDIS for workload in workloads)


def redis_requests(workload, options):
    return options.redis_n * (4 if workload == "redisp16" else 1)


def command(workload, loadgen, host, port, options):
    if workload in REDIS:
        return ["redis-benchmark", "-h", host, "-p", str(port), "-c", "50", "-t", "set,get",
                "--csv", "-P", str(REDIS[workload]), "-n",
                str(redis_requests(workload, options))]
    mode, size = LOADGEN[workload]
    words = [loadgen, mode, host, str(port), size, str(options.secs)]
    if mode == "bulk":
        words.append(str(options.send_bytes))
    if mode == "crr":
        words.append(str(REQUESTS.get(workload, 64)))
    if workload == "pace64":
        words.append("1000")
    return words


def metrics(workload, output, cost, options):
    """(metrics by name, error or "") of one run."""
    if workload in REDIS:
        return redis_metrics(output, cost, redis_requests(workload, options)), ""
    result = json.loads(output.splitlines()[0])
    if workload.startswith("bulk"):
        gigabytes = max(result["bytes"], 1) / 1e9
        wrong = "" if result["ok"] else "byte counts differ"
        return {"GBps": result["gbytes_per_s"], "side_s_per_GB": cost.side / gigabytes,
                "sys_s_per_GB": cost.machine / gigabytes,
                "wire_share": cost.wire_bytes / gigabytes / 1e9}, wrong
    if LOADGEN[workload][0] == "crr":
        wrong = f"{result['fail']} connections failed" if result["fail"] else ""
        return {"cps": result["cps"], "worst_ms": result["worst_ms"],
                **{name: result[name] for name in ("first_p50_us", "first_p99_us", "whole_p50_us", "whole_p99_us")},
                "side_us_per_conn": cost.side / max(1, result["n"]) * 1e6}, wrong
    if workload == "talk":
        return {name: result[name] for name in ("trip_p50_us", "trip_p99_us", "slowest_p50_us", "slowest_p99_us")}, ""
    return {"p50_us": result["p50_us"], "p99_us": result["p99_us"], "rps": result["rps"],
            "side_us_per_rtt": cost.side / max(1, result["n"]) * 1e6,
            "side_sw_per_rtt": cost.side_switches / max(1, result["n"])}, ""


def redis_metrics(output, cost, requests):
    """redis-benchmark prints a header and one line for each of SET and GET."""
    lines = [[cell.strip('"') for cell in line.split(",")] for line in output.strip().splitlines()]
    found = {}
    for line in lines[1:]:
        row = dict(zip(lines[0], line))
        name = row["test"].lower()
        found[name + "_kops"] = float(row["rps"]) / 1e3
        for quantile in ("p50", "p99"):
            found[f"{name}_{quantile}_us"] = float(row[f"{quantile}_latency_ms"]) * 1e3
    operations = requests * max(1, len(lines) - 1)
    found["side_us_per_op"] = cost.side / operations * 1e6
    found["sys_us_per_op"] = cost.machine / operations * 1e6
    return found
