"""Runs in a node, as root. Prints the kernel's facts about a program of a pod as JSON; {} if it does not run.

    guest_process.py UID-OF-POD PROGRAM

"opens" has for each RNIC of the node the error, or "", when a process of root in the program's cgroup opens its device:
neither owner nor mode of a file decides that, only the cgroup.
"""
import errno
import json
import os
import sys
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
DEVICES = Path("dev/infiniband")


def find(uid, program):
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            cgroup = (folder / "cgroup").read_text().strip().removeprefix("0::/")
            if (uid in cgroup or uid.replace("-", "_") in cgroup) and (folder / "comm").read_text().strip() == program:
                return folder, cgroup
        except OSError:
            continue  # it has just ended
    return None, ""


def status(folder):
    lines = (line.partition(":") for line in (folder / "status").read_text().splitlines())
    return {name: value.split() for name, _, value in lines}


def memlock(folder):
    line = next(line for line in (folder / "limits").read_text().splitlines() if line.startswith("Max locked memory"))
    return line.split()[3:5]


def rnic(path):
    return Path("/sys/class/infiniband_verbs", path.name, "ibdev").read_text().strip()


def nodes(folder):
    """{RNIC: [owner, mode]}"""
    found = sorted((folder / "root" / DEVICES).glob("*"))
    return {rnic(path): [path.stat().st_uid, oct(path.stat().st_mode & 0o7777)] for path in found}


def opens(cgroup):
    result = {}
    for path in sorted(Path("/", DEVICES).glob("uverbs*")):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            (CGROUPS / cgroup / "cgroup.procs").write_text(str(os.getpid()))
            try:
                os.close(os.open(path, os.O_RDWR))
            except OSError as error:
                os.write(writer, errno.errorcode[error.errno].encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            result[rnic(path)] = answer.read()
        if os.waitpid(child, 0)[1] != 0:
            result[rnic(path)] = "not tried"
    return result


def main():
    folder, cgroup = find(*sys.argv[1:3])
    if folder is None:
        print("{}")
        return
    known = status(folder)
    print(json.dumps({"uid": int(known["Uid"][0]), "capabilities": int(known["CapEff"][0], 16),
                      "no_new_privs": known["NoNewPrivs"] == ["1"], "seccomp": known["Seccomp"] == ["2"],
                      "memlock": memlock(folder), "nodes": nodes(folder), "opens": opens(cgroup)}))


if __name__ == "__main__":
    main()
