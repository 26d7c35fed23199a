#!/usr/bin/env python3
"""Runs every fuzzer in build/fuzz for a while: scripts/fuzz.py [--seconds N] [--jobs N] [--coverage] [name …]

Each begins with the corpus in git (tests/fuzz/corpus/<name>) and the inputs that earlier runs have found
(build/fuzz/found/<name>). An input that causes a failure is kept in build/fuzz/crashes. Add it to the
corpus in git together with the fix.

--coverage prints what all these inputs reach, for each target: covered and all regions and lines of the
files under test, and the functions that no input reaches. With --seconds 0 nothing is fuzzed before.

--merge adds the found inputs that reach more code to the corpus in git.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
SUFFIX = "_fuzzer"
INPUT_SECONDS_MAX = 60  # by the clock, beside other programs; a decoder that needs longer for one message hangs
# Each target gets CPU time, because other programs may run. Targets with sockets also wait.
CPU_ENOUGH = 0.95
WALL_FACTOR = 2
# Of the corpus in git: replay_test checks these limits and one for all corpora together.
CORPUS_FILES_MAX = 200
CORPUS_FILE_BYTES_MAX = 4096
FUNCTIONS_SHOWN_MAX = 60  # never reached, of one target

# The files under test of each target, as beginnings of paths. What else a target runs is not its object.
UNDER_TEST = {
    "accept_confirm": ["proxy/wire/clc_accept_confirm.cc", "proxy/wire/clc.cc", "proxy/wire/eid.cc"],
    "annotations": ["injector/annotation", "injector/settings.cc", "injector/sidecar.cc", "injector/decision.cc",
                    "cni/plugin/wishes.cc", "proxy/base/node_annotations.cc", "proxy/config/override.cc"],
    "broker": ["proxy/broker/message.cc", "proxy/broker/request_ring.cc"],
    "cdc": ["proxy/wire/cdc"],
    "clc_header": ["proxy/wire/clc.cc"],
    "cluster": ["proxy/ctl/cluster/agent_checks.cc", "proxy/ctl/cluster/check_text.h", "proxy/ctl/cluster/cluster_c",
                "proxy/ctl/cluster/cluster_facts.cc", "proxy/ctl/cluster/cluster_status.cc",
                "proxy/ctl/cluster/injection_checks.cc", "proxy/ctl/cluster/platform_checks.cc",
                "proxy/ctl/cluster/policy_checks.cc", "proxy/json/"],
    "cni": ["cni/plugin/request.cc", "cni/plugin/node_config.cc", "cni/plugin/wishes.cc", "cni/plugin/pod_plan.cc", "cni/redirect/packet_filter_plan.cc",
            "cni/redirect/nft_batch.cc", "cni/redirect/ranges.cc", "cni/state/state.cc", "cni/plugin/json_text.cc", "cni/netlink/message"],
    "config": ["proxy/config/"],
    "decline": ["proxy/wire/clc.cc"],
    "description": ["proxy/parking/description.cc"],
    "frame": ["proxy/wire/frame.cc"],
    "frames_relay": ["proxy/smc/frames/deferral.cc", "proxy/relay/pipes/framed_relay", "proxy/relay/pipes/duplex.h",
                     "proxy/relay/pipes/backlog.cc", "proxy/wire/frame.cc"],
    "http": ["proxy/event/http/", "proxy/admin/query.cc"],
    "kubeconfig": ["proxy/ctl/cluster/kubeconfig.cc", "injector/manifest.cc", "proxy/event/https/base64.cc"],
    "llc": ["proxy/wire/llc"],
    "node": ["cni/node/broker/broker_file.cc", "cni/node/broker/broker_book.cc", "cni/node/agent/conflist.cc", "cni/node/pods/node_pods.cc",
             "cni/node/pods/pod_answers.cc", "cni/node/pods/sidecar_counts.cc", "cni/node/cluster/token_claims.cc",
             "cni/node/agent/withdraw.cc", "cni/plugin/agent_query.cc", "proxy/base/hand_over.cc"],
    "nri": ["cni/node/nri/framing.cc", "cni/node/nri/plugin_session.cc", "cni/node/nri/sidecar_program.cc"],
    "proposal": ["proxy/wire/clc_proposal.cc", "proxy/wire/clc.cc", "proxy/wire/eid.cc"],
    "reply": ["proxy/event/https/http_exchange.cc", "proxy/ctl/http_client.cc", "proxy/ctl/json_value.cc",
              "proxy/ctl/reports.cc"],
    "review": ["injector/review.cc", "injector/decision.cc", "injector/sidecar.cc", "injector/annotation",
               "injector/bounded_json.cc", "proxy/json/"],
}


def name_of(program):
    return program.name.removesuffix(SUFFIX)


def found_of(name):
    return BUILD / "found" / name


def corpus_of(name):
    return ROOT / "tests" / "fuzz" / "corpus" / name


@dataclasses.dataclass
class Run:
    code: int
    output: str
    cpu_seconds: float


def run(program, arguments, profile="/dev/null"):
    """`profile`: where the program writes which code has run."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT,
                                   env={**os.environ, "LLVM_PROFILE_FILE": str(profile)})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return Run(process.returncode, output.read(), usage.ru_utime + usage.ru_stime)


def folders_of(name):
    return [str(folder) for folder in (found_of(name), corpus_of(name)) if folder.is_dir()]


def fuzz(program, seconds):
    """For `seconds` of CPU time, but no longer than WALL_FACTOR times as long."""
    name = name_of(program)
    crashes = BUILD / "crashes"
    found_of(name).mkdir(parents=True, exist_ok=True)
    crashes.mkdir(parents=True, exist_ok=True)
    executed, used, end = 0, 0.0, time.monotonic() + WALL_FACTOR * seconds
    while True:
        wanted = max(1, min(round(seconds - used), round(end - time.monotonic())))
        done = run(program, [f"-max_total_time={wanted}", f"-timeout={INPUT_SECONDS_MAX}", "-print_final_stats=1",
                             f"-artifact_prefix={crashes}/{name}-", *folders_of(name)])
        executed += sum(int(line.split()[-1]) for line in done.output.splitlines()
                        if "number_of_executed_units" in line)
        used += done.cpu_seconds
        if done.code != 0 or used > CPU_ENOUGH * seconds or time.monotonic() >= end:
            return name, done.code, f"{executed} inputs in {used:.0f} s of CPU time", done.output


def export(program):
    """What all inputs of a target reach, as llvm-cov has it."""
    with tempfile.TemporaryDirectory() as folder:
        raw, merged = Path(folder) / "raw", Path(folder) / "merged"
        done = run(program, ["-runs=0", *folders_of(name_of(program))], raw)
        if done.code != 0:
            raise RuntimeError(done.output[-2000:])
        subprocess.run(["llvm-profdata-14", "merge", "-sparse", raw, "-o", merged], check=True)
        text = subprocess.run(["llvm-cov-14", "export", f"-instr-profile={merged}", program], check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(text)["data"][0]


def demangled(names):
    if not names:
        return []
    out = subprocess.run(["c++filt"], input="\n".join(names), stdout=subprocess.PIPE, text=True, check=True)
    return out.stdout.splitlines()


def short(function):
    """Without parameters and namespaces, as far as they can be told apart."""
    function = function.replace("(anonymous namespace)::", "").replace("fairlead::", "")
    return function.split("(")[0].split("[abi")[0]


def percent(covered, count):
    return f"{100 * covered // count if count else 100:3}%"


def coverage(name, data):
    """The lines of the report about one target."""
    prefixes = tuple(UNDER_TEST.get(name, ()))
    relative = {file["filename"]: os.path.relpath(file["filename"], ROOT) for file in data["files"]}
    files = [(relative[file["filename"]], file["summary"]) for file in data["files"]
             if relative[file["filename"]].startswith(prefixes)] if prefixes else []
    lines = [f"{name}: regions and lines reached"]
    totals = {"regions": [0, 0], "lines": [0, 0]}
    for path, summary in sorted(files):
        cells = []
        for kind, total in totals.items():
            covered, count = summary[kind]["covered"], summary[kind]["count"]
            total[0] += covered
            total[1] += count
            cells.append(f"{covered:5} / {count:5} {percent(covered, count)}")
        lines.append(f"  {path:45} {'   '.join(cells)}")
    cells = [f"{covered:5} / {count:5} {percent(covered, count)}" for covered, count in totals.values()]
    lines.append(f"  {'all':45} {'   '.join(cells)}")
    counts = {}  # templates and inline functions occur several times
    for function in data["functions"]:
        path = relative.get(function["filenames"][0], "")
        if path.startswith(prefixes) and prefixes:
            line = function["regions"][0][0]
            key = (path, line)
            reached, _ = counts.get(key, (0, ""))
            counts[key] = (reached + function["count"], function["name"].split(":")[-1])
    never = [(key, mangled) for key, (count, mangled) in sorted(counts.items()) if count == 0]
    names = demangled([mangled for _, mangled in never])
    lines.append(f"  functions never reached: {len(never)}")
    for ((path, line), _), function in list(zip(never, names))[:FUNCTIONS_SHOWN_MAX]:
        lines.append(f"    {path}:{line} {short(function)}")
    return lines


def print_coverage(programs, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for program, data in zip(programs, pool.map(export, programs)):
            print("\n".join(coverage(name_of(program), data)), flush=True)


def merge(program):
    """Adds found inputs to the corpus in git, few and small ones that together reach what all reach."""
    name = name_of(program)
    corpus = corpus_of(name)
    corpus.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        done = run(program, ["-set_cover_merge=1", f"-max_len={CORPUS_FILE_BYTES_MAX}", folder, str(corpus),
                             str(found_of(name))])
        if done.code != 0:
            raise RuntimeError(done.output[-2000:])
        known = {file.read_bytes() for file in corpus.iterdir()}
        added = 0
        for file in sorted(Path(folder).iterdir(), key=lambda f: f.stat().st_size):
            if file.read_bytes() in known or len(known) >= CORPUS_FILES_MAX:
                continue
            known.add(file.read_bytes())
            shutil.copy(file, corpus / f"found-{file.name[:12]}")
            added += 1
    print(f"{name}: {added} inputs added, {len(known)} in the corpus", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--coverage", action="store_true", help="print what the inputs reach")
    parser.add_argument("--merge", action="store_true", help="add found inputs to the corpus in git")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    programs = sorted(p for p in BUILD.rglob(f"*{SUFFIX}") if p.is_file() and os.access(p, os.X_OK)
                      and (not arguments.names or name_of(p) in arguments.names))
    if not programs:
        print("no fuzzers: make fuzz builds them")
        return 2
    broken = 0
    if arguments.seconds > 0:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for name, code, executed, output in pool.map(lambda p: fuzz(p, arguments.seconds), programs):
                print(f"{name}: {executed}, {'ok' if code == 0 else 'BROKEN'}", flush=True)
                if code != 0:
                    broken += 1
                    print("\n".join(output.splitlines()[-60:]))
        print(f"{len(programs)} fuzzers, {broken} broken")
    if arguments.merge:
        for program in programs:
            merge(program)
    if arguments.coverage:
        print_coverage(programs, arguments.jobs)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
