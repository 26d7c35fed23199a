#!/usr/bin/env python3
"""Reviews under load: load_test.py <folder of fairlead-injector> [--strict]

Sends REVIEWS_PER_SECOND reviews over as many new TLS connections for SECONDS. Prints the 99th percentile of the
server's own work and of the whole call, and the resident memory. Checks memory on builds without sanitizers, and times
only with --strict, because other programs share the machine.
"""
import json
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from injector import HERE, HOST, Client, Injector, make_certificate, review, wait_for

REVIEWS_PER_SECOND = 100
SECONDS = 5
CALL_P99_SECONDS_MAX = 0.020
RESIDENT_BYTES_MAX = 32 << 20


def percentile(samples, share):
    return sorted(samples)[min(int(len(samples) * share), len(samples) - 1)]


def run_load(client, bodies):
    """Each call begins at its scheduled time, even if earlier calls have not ended."""
    begin = time.monotonic()
    alarm = threading.Event()

    def call(index):
        due = begin + index / REVIEWS_PER_SECOND
        alarm.wait(max(0.0, due - time.monotonic()))
        start = time.monotonic()
        status, body = client.post("/mutate/pods", bodies[index % len(bodies)])
        assert status == 200, body
        return time.monotonic() - start
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(call, range(REVIEWS_PER_SECOND * SECONDS)))


def main():
    binary, is_strict = Path(sys.argv[1]) / "fairlead-injector", "--strict" in sys.argv
    bodies = [review(json.loads(path.read_text())["pod"]) for path in sorted((HERE / "cases").glob("*.json"))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_certificate(folder, HOST, f"DNS:{HOST}")
        with Injector(binary, "--cert-dir", folder) as injector:
            client = Client(injector.port_of("reviews"), (folder / "tls.crt").read_text())
            calls = run_load(client, bodies)
            wait_for("all reviews to be counted", lambda: injector.metrics()[
                "fairlead_injector_review_duration_seconds_count"] == len(calls))
            metrics = injector.metrics()
            is_sanitized = b"__asan_init" in binary.read_bytes()
    resident = metrics["process_resident_memory_bytes"]
    buckets = [(float(key.split('"')[1]), value) for key, value in metrics.items() if "_bucket" in key]
    work = min(bound for bound, count in buckets if count >= 0.99 * len(calls))
    print(f"{len(calls)} reviews, p99 of the call {percentile(calls, 0.99) * 1e3:.1f} ms, of the work at most "
          f"{work * 1e3:g} ms, resident {resident / (1 << 20):.1f} MiB")
    if not is_sanitized and resident >= RESIDENT_BYTES_MAX:
        return 1
    return 1 if is_strict and percentile(calls, 0.99) > CALL_P99_SECONDS_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
