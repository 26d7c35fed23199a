#!/usr/bin/env python3
"""Every C and C++ source is as clang-format 14 would write it. Exit code 77: there is none here."""
import shutil
import subprocess
import sys
from pathlib import Path

import source_tree

CLANG_FORMAT = "clang-format-14"  # newer ones disagree in details


def main():
    if shutil.which(CLANG_FORMAT) is None:
        print(f"{CLANG_FORMAT} is not installed: scripts/bootstrap.sh test")
        return 77
    root = Path(__file__).resolve().parents[2]
    paths = [p for p in source_tree.load(str(root)) if p.endswith(source_tree.CXX_SUFFIXES)]
    done = subprocess.run([CLANG_FORMAT, "--dry-run", *paths], cwd=root, capture_output=True,
                          text=True, check=False)
    wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines()
                    if "clang-format-violations" in line})
    for path in wrong:
        print(f"{path}: not formatted; make format")
    if done.returncode != 0:
        print(done.stderr)
    print(f"{len(paths)} files, {len(wrong)} not formatted")
    return 1 if wrong or done.returncode != 0 or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
