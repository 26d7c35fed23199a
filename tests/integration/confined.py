#!/usr/bin/env python3
"""Runs a program under a seccomp profile (OCI, as config/seccomp.json), as a container runtime does: the filter is
loaded, then the program is executed.

    confined.py [--kill] [--add=CALL] PROFILE PROGRAM [ARGUMENT ...]

--kill  ends the process, by SIGSYS, at a call that no entry of the profile names, so that a missing entry does not
        stay hidden behind an error that the program tolerates
--add   allows one more call

libseccomp.so.2 makes the filter. why_not() tells whether it is there.
"""
import argparse
import ctypes
import errno
import json
import os
import platform
import signal
import sys
from pathlib import Path

PROFILE = Path(__file__).parents[2] / "config" / "seccomp.json"
LIBRARY = "libseccomp.so.2"
ARCHITECTURES = {"SCMP_ARCH_X86_64": 0xC000003E, "SCMP_ARCH_AARCH64": 0xC00000B7}
MACHINES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
KILL_PROCESS, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
COMPARISONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
UNKNOWN_CALL = -1  # of any architecture


class Argument(ctypes.Structure):
    """struct scmp_arg_cmp"""
    _fields_ = [("index", ctypes.c_uint), ("comparison", ctypes.c_int), ("first", ctypes.c_uint64),
                ("second", ctypes.c_uint64)]


def library():
    loaded = ctypes.CDLL(LIBRARY, use_errno=True)
    loaded.seccomp_init.restype = ctypes.c_void_p
    loaded.seccomp_init.argtypes = [ctypes.c_uint32]
    loaded.seccomp_load.argtypes = [ctypes.c_void_p]
    loaded.seccomp_arch_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    loaded.seccomp_arch_remove.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    loaded.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                              ctypes.POINTER(Argument)]
    return loaded


def why_not():
    """The reason why nothing can be confined here, or None."""
    if platform.machine() not in MACHINES:
        return f"no profile for {platform.machine()}"
    try:
        library()
    except OSError as error:
        return f"{error}; scripts/bootstrap.sh test"
    return None


def number_of(name, architecture):
    """The number of a call; negative where the architecture lacks it; UNKNOWN_CALL where libseccomp does not know it."""
    return library().seccomp_syscall_resolve_name_arch(ARCHITECTURES[architecture], name.encode())


def action_of(name, number=errno.EPERM):
    return {"SCMP_ACT_ALLOW": ALLOW, "SCMP_ACT_ERRNO": ERRNO | number}[name]


def checked(result, what):
    if result != 0:
        raise OSError(-result, f"{what}: {os.strerror(-result)}")


def make_filter(profile, architecture, kill=False):
    """A filter of libseccomp for one architecture of the profile."""
    made = library()
    default = KILL_PROCESS if kill else action_of(profile["defaultAction"], profile.get("defaultErrnoRet", errno.EPERM))
    context = made.seccomp_init(default)
    native = MACHINES[platform.machine()]
    if architecture != native:
        checked(made.seccomp_arch_add(context, ARCHITECTURES[architecture]), architecture)
        checked(made.seccomp_arch_remove(context, ARCHITECTURES[native]), native)
    for entry in profile["syscalls"]:
        action = action_of(entry["action"], entry.get("errnoRet", errno.EPERM))
        if action == default:
            continue  # libseccomp refuses what changes nothing
        arguments = [Argument(one["index"], COMPARISONS[one["op"]], one["value"], one.get("valueTwo", 0))
                     for one in entry.get("args", [])]
        array = (Argument * len(arguments))(*arguments)
        for name in entry["names"]:
            number = number_of(name, architecture)
            if number < 0:
                continue  # another architecture's
            checked(made.seccomp_rule_add_array(context, action, number, len(arguments), array), name)
    return context


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--add", metavar="CALL", action="append", default=[])
    parser.add_argument("profile", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args(words)


def main(words):
    wanted = parse(words)
    command = wanted.command
    profile = json.loads(wanted.profile.read_text())
    profile["syscalls"] = [{"names": [name], "action": "SCMP_ACT_ALLOW"} for name in wanted.add] + [
        {**entry, "names": [name for name in entry["names"] if name not in wanted.add]} for entry in profile["syscalls"]]
    context = make_filter(profile, MACHINES[platform.machine()], wanted.kill)
    # Python ignores it, and the program would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    checked(library().seccomp_load(context), "seccomp_load")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
