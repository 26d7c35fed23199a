#!/usr/bin/env python3
"""Runs clang-tidy 14 over the sources: scripts/tidy.py [--all] [--base REVISION] [--jobs N]

Without --all it checks only sources that differ from the base (default: the branch point from
origin/main, else the last commit), and sources whose own header differs. Needs a configured build/dev with
its generated headers. `make tidy` provides both.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / os.environ.get("TIDY_BUILD", "build/dev")
TIDY_COMMANDS = BUILD.parent / "tidy"
CLANG_TIDY = "clang-tidy-14"
PRECOMPILED = re.compile(r"-Xclang (-include-pch|-include) -Xclang \S+|-Winvalid-pch")


def git(*arguments):
    """The lines of its output; subprocess.CalledProcessError with its message if it fails."""
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()


def changed_files(base):
    """Paths that differ from where the branch left `base`, committed or not; None: origin/main, else the last commit."""
    if base is None:
        base = "origin/main" if git("branch", "--remotes", "--list", "origin/main") else "HEAD~1"
    start = git("merge-base", base, "HEAD")[0]
    return set(git("diff", "--name-only", start)) | set(git("ls-files", "--others", "--exclude-standard"))


def sources(everything, base):
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    known = sorted({str(Path(c["file"]).relative_to(ROOT)) for c in commands
                    if Path(c["file"]).is_relative_to(ROOT)
                    and not Path(c["file"]).is_relative_to(ROOT / "build")})
    if everything:
        return known
    changed = changed_files(base)
    return [s for s in known if s in changed or str(Path(s).with_suffix(".h")) in changed]


def write_commands():
    """A copy of the build's commands without precompiled headers: a source has to include what it uses."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    for command in commands:
        command["command"] = PRECOMPILED.sub("", command["command"])
    TIDY_COMMANDS.mkdir(parents=True, exist_ok=True)
    (TIDY_COMMANDS / "compile_commands.json").write_text(json.dumps(commands))


def check(source):
    # A compiler may be g++; an option that clang does not know is not a finding.
    done = subprocess.run([CLANG_TIDY, "--quiet", "-p", TIDY_COMMANDS, "--extra-arg=-Wno-unknown-warning-option",
                           "--extra-arg=-Wno-unused-command-line-argument", source],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    return source, done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--base", default=os.environ.get("TIDY_BASE"))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("only", nargs="*", help="beginnings of paths")
    arguments = parser.parse_args()
    try:
        known = sources(arguments.all, arguments.base)
    except subprocess.CalledProcessError as error:
        parser.error(f"--base {arguments.base}: {error.stderr.strip()}")
    chosen = [s for s in known if not arguments.only or s.startswith(tuple(arguments.only))]
    write_commands()
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for source, code, text in pool.map(check, chosen):
            if code != 0:
                wrong += 1
                print(f"{source}\n{text}", flush=True)
    print(f"{len(chosen)} sources, {wrong} with findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
