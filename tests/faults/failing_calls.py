"""The table of failing system calls, shared with failing_calls.c, and the errors of each call."""
import errno
import mmap
import subprocess
import struct
from pathlib import Path

# In the order of `enum call`.
CALLS = ("accept4", "bind", "close", "connect", "epoll_create1", "epoll_ctl", "epoll_wait", "eventfd", "fallocate",
         "fcntl", "fstat", "ftruncate", "getpeername", "getrandom", "getsockname", "getsockopt", "listen", "mmap",
         "munmap", "open", "pipe2", "read", "readv", "recv", "recvmsg", "send",
         "sendmsg", "setsockopt", "shutdown", "socket", "splice", "timerfd_create", "write", "writev")
# In the order of `enum object`.
OBJECTS = ("any", "tcp", "unix", "pipe", "other")
RULE = struct.Struct("iiiii")
RULES_MAX = 64
RULES_BYTES = RULES_MAX * RULE.size
COUNT = struct.Struct("I")  # of calls: one for each call and object, behind the rules
TABLE_BYTES = RULES_BYTES + len(CALLS) * len(OBJECTS) * COUNT.size

DESCRIPTORS = "EMFILE ENFILE"
MEMORY = "ENOBUFS ENOMEM"
FILES = "EACCES ENOENT ENOMEM ENOSPC EROFS EDQUOT ELOOP EPERM"
BROKEN_TCP = "ECONNRESET ETIMEDOUT EHOSTUNREACH ENETUNREACH"
# Errors of the manual pages, without those of a wrong caller (EBADF, EFAULT, EINVAL, ENOTSOCK and similar ones). EAGAIN
# and the ENOTCONN of shutdown(2) are also missing: an event or a reset comes with them, which an injected failure does
# not cause.
ERRORS = {
    ("accept4", "any"): f"EINTR ECONNABORTED EPERM EPROTO ENETDOWN EHOSTUNREACH {DESCRIPTORS} {MEMORY}",
    ("bind", "any"): "EACCES EADDRINUSE EADDRNOTAVAIL ENOMEM EROFS",
    ("close", "any"): "EINTR EIO",
    ("connect", "tcp"): "EINTR EACCES EPERM EADDRNOTAVAIL EAGAIN ECONNREFUSED ENETUNREACH ETIMEDOUT ENOBUFS",
    ("epoll_create1", "any"): f"{DESCRIPTORS} ENOMEM",
    ("epoll_ctl", "any"): "ENOMEM ENOSPC EPERM",
    ("epoll_wait", "any"): "EINTR",
    ("eventfd", "any"): f"{DESCRIPTORS} ENODEV ENOMEM",
    ("fallocate", "any"): "EINTR EFBIG EIO ENOSPC ENODEV EOPNOTSUPP EPERM",
    ("fcntl", "any"): "EPERM EBUSY ENOMEM",
    ("fstat", "any"): "ENOMEM EOVERFLOW",
    ("ftruncate", "any"): "EINTR EFBIG EIO EPERM",
    ("getpeername", "any"): "ENOTCONN ENOBUFS",
    ("getrandom", "any"): "EINTR ENOSYS",
    ("getsockname", "any"): "ENOBUFS",
    ("getsockopt", "any"): "ENOPROTOOPT EPERM ENOMEM",
    ("listen", "any"): "EADDRINUSE",
    ("mmap", "any"): "EACCES EAGAIN ENFILE ENODEV ENOMEM EPERM",
    ("munmap", "any"): "ENOMEM",
    ("open", "any"): f"EINTR EEXIST {DESCRIPTORS} {FILES}",
    ("pipe2", "any"): f"{DESCRIPTORS}",
    ("read", "pipe"): "EINTR EIO",
    ("read", "other"): "EINTR EIO",
    ("readv", "tcp"): f"EINTR ENOMEM {BROKEN_TCP}",
    ("recv", "tcp"): f"EINTR ENOMEM {BROKEN_TCP}",
    ("recv", "unix"): "EINTR ENOMEM ECONNRESET",
    ("recvmsg", "unix"): "EINTR ENOMEM ECONNRESET",
    ("send", "tcp"): f"EINTR EPIPE {MEMORY} {BROKEN_TCP}",
    ("sendmsg", "tcp"): f"EINTR EPIPE {MEMORY} {BROKEN_TCP}",
    ("setsockopt", "any"): "ENOPROTOOPT EPERM EDOM ENOMEM ENOBUFS",
    ("socket", "any"): f"EACCES EAFNOSUPPORT EPROTONOSUPPORT {DESCRIPTORS} {MEMORY}",
    ("splice", "tcp"): f"EINTR ENOMEM {BROKEN_TCP}",
    # Not EPIPE: the kernel gives it behind a FIN and an RST of the other end only. The proxy reads up to that end, which
    # does not come here.
    ("splice", "pipe"): f"EINTR ENOMEM {BROKEN_TCP}",
    ("timerfd_create", "any"): f"{DESCRIPTORS} ENODEV ENOMEM EPERM",
    ("write", "pipe"): "EINTR EPIPE EIO",
    ("writev", "tcp"): f"EINTR EPIPE {MEMORY} {BROKEN_TCP}",
}


class Failure:
    """One errno of one call, for the `turn`-th such call from now on."""

    def __init__(self, call, target, name, turn=1):
        self.call, self.target, self.name, self.turn = call, target, name, turn

    def __str__(self):
        target = "" if self.target == "any" else f" of {self.target}"
        return f"{self.call}{target} #{self.turn}: {self.name}"


def all_failures():
    return [Failure(call, target, name) for (call, target), names in ERRORS.items() for name in names.split()]


class Table:
    """The failures of one process."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.write_bytes(bytes(TABLE_BYTES))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def environment(self, library, program):
        """The environment of a program; the library of a sanitizer has to be loaded first."""
        return {"FAIRLEAD_FAULTS": str(self.path),
                "LD_PRELOAD": ":".join([*sanitizers(program), str(library)])}

    def arm(self, failures):
        for index, failure in enumerate(failures):
            RULE.pack_into(self.memory, index * RULE.size, CALLS.index(failure.call), OBJECTS.index(failure.target),
                           getattr(errno, failure.name), failure.turn, 0)

    def disarm(self):
        """The number of failed calls."""
        fired = sum(RULE.unpack_from(self.memory, index * RULE.size)[4] for index in range(RULES_MAX))
        self.memory[:RULES_BYTES] = bytes(RULES_BYTES)
        return fired

    def seen(self, call, target):
        """The number of such calls that the process has made, failed ones included."""
        at = CALLS.index(call) * len(OBJECTS) + OBJECTS.index(target)
        return COUNT.unpack_from(self.memory, RULES_BYTES + at * COUNT.size)[0]


def sanitizers(program):
    """The libraries of sanitizers that it is linked with: libasan.so.8."""
    needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [line.split("=>")[1].split()[0] for line in needed.splitlines() if "libasan" in line and "=>" in line]
