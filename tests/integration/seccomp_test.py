"""Goal: config/seccomp.json has the system calls of the programs in the sidecar's container, with a reason each, and no
others. Method: its entries are compared with the C library's functions that the programs import, with libseccomp's tables
of both architectures and with the page; calls that it must refuse are made under it; a proxy runs under it. The variants
named `confined` of other suites show that it is complete."""
import ctypes
import errno
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import confined
import peers
from harness import ProxyTest, listener, main, programs, seconds

PAGE = Path(__file__).parents[2] / "docs" / "seccomp.md"
PROFILE = json.loads(confined.PROFILE.read_text())
X86, ARM = "SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"
# Calls that arm64 lacks, and what the C library makes there instead.
ON_ARM = {"access": "faccessat", "alarm": "setitimer", "arch_prctl": None, "epoll_wait": "epoll_pwait", "link": "linkat",
          "mkdir": "mkdirat", "poll": "ppoll", "readlink": "readlinkat", "unlink": "unlinkat"}
# Functions of the C library with the name of a call, which make another one.
MAKES = {"eventfd": "eventfd2", "getrlimit": "prlimit64", "lstat": "newfstatat", "nanosleep": "clock_nanosleep",
         "open": "openat", "recv": "recvfrom", "send": "sendto", "setrlimit": "prlimit64", "stat": "newfstatat",
         "fstat": "newfstatat", "time": "clock_gettime"}
CLONE_NEWUSER, CLONE_THREAD = 0x10000000, 0x00010000
AF_PACKET, AF_ALG, AF_VSOCK = 17, 38, 40
TIOCSTI, PR_SET_DUMPABLE = 0x5412, 4
# Calls with arguments that would do nothing: (name, arguments).
FORBIDDEN = [
    ("ptrace", (-1, 0)), ("unshare", (0,)), ("mount", (0, 0, 0, 0, 0)), ("umount2", (0, 0)), ("pivot_root", (0, 0)), ("chroot", (0,)),
    ("setns", (-1, 0)), ("init_module", (0, 0, 0)), ("kexec_load", (0, 0, 0, 1 << 40)), ("bpf", (-1, 0, 0)),
    ("perf_event_open", (0, 0, 0, 0, 0)), ("io_uring_setup", (0, 0)), ("userfaultfd", (-1,)), ("keyctl", (-1,)), ("add_key", (0, 0, 0, 0, 0)),
    ("process_vm_readv", (-1, 0, 0, 0, 0, 1)), ("process_vm_writev", (-1, 0, 0, 0, 0, 1)), ("kill", (1 << 30, 0)), ("pidfd_open", (-1, 0)),
    ("setuid", (-1,)), ("capset", (0, 0)), ("chmod", (0, 0)), ("fchownat", (-1, 0, 0, 0, 0)), ("rename", (0, 0)), ("symlink", (0, 0)),
    ("mknodat", (-1, 0, 0, 0)), ("execveat", (-1, 0, 0, 0, -1)), ("fork", None), ("clone", (CLONE_NEWUSER | CLONE_THREAD, 0, 0, 0, 0)),
    ("clone", (-1, 0, 0, 0, 0)), ("socket", (AF_PACKET, -1, 0)), ("socket", (AF_ALG, -1, 0)), ("socket", (AF_VSOCK, -1, 0)),
    ("socketpair", (2, -1, 0, 0)), ("ioctl", (-1, TIOCSTI, 0)), ("prctl", (PR_SET_DUMPABLE, -1, 0, 0, 0)), ("personality", (-1,)),
    ("shmget", (0, 0, 0)), ("open_by_handle_at", (-1, 0, 0)), ("listxattr", (0, 0, 0)), ("accept", (-1, 0, 0)), ("syslog", (-1, 0, 0)),
]
PERMITTED = [("ioctl", (-1, 0x5401, 0), errno.EBADF), ("ioctl", (-1, 0xC0181B01, 0), errno.EBADF),
             ("prctl", (15, 0, 0, 0, 0), errno.EFAULT), ("socket", (2, -1, 0), errno.EINVAL), ("clone3", (0, 0), errno.ENOSYS)]


def allowed():
    return {name for entry in PROFILE["syscalls"] if entry["action"] == "SCMP_ACT_ALLOW" for name in entry["names"]}


def listed():
    return {name for entry in PROFILE["syscalls"] for name in entry["names"]}


def rows_of(page):
    """{comment: names} of the table on the page."""
    rows = re.findall(r"^\| ([^|]+) \| ((?:`\w+`(?:, )?)+) \|$", page, re.MULTILINE)
    return {comment: re.findall(r"`(\w+)`", names) for comment, names in rows}


def outcomes(calls, confine):
    """The error numbers of these calls in a child process, 0 for success."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            libc = ctypes.CDLL(None, use_errno=True)
            numbers = [confined.number_of(name, confined.MACHINES[platform.machine()]) for name, _ in calls]
            if confine:
                context = confined.make_filter(PROFILE, confined.MACHINES[platform.machine()])
                confined.checked(confined.library().seccomp_load(context), "seccomp_load")
            found = []
            for number, (_, arguments) in zip(numbers, calls):
                ctypes.set_errno(0)
                result = libc.syscall(number, *(ctypes.c_long(one) for one in arguments))
                found.append(ctypes.get_errno() if result == -1 else 0)
            os.write(writer, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


class Profile(ProxyTest):
    def setUp(self):
        if why := confined.why_not():
            self.skipTest(why)
        super().setUp()

    def test_every_entry_has_a_reason_and_is_on_the_page(self):
        self.assertEqual(PROFILE["defaultAction"], "SCMP_ACT_ERRNO")
        self.assertEqual(PROFILE["architectures"], [X86, ARM])
        for entry in PROFILE["syscalls"]:
            self.assertIn(": ", entry["comment"])
            self.assertEqual(entry["names"], sorted(entry["names"]))
        comments = {entry["comment"]: entry["names"] for entry in PROFILE["syscalls"]}
        self.assertEqual(len(comments), len(PROFILE["syscalls"]), "a comment occurs twice")
        self.assertEqual(rows_of(PAGE.read_text()), comments)

    def test_no_name_is_listed_twice_without_arguments(self):
        plain = [name for entry in PROFILE["syscalls"] if "args" not in entry for name in entry["names"]]
        limited = {name for entry in PROFILE["syscalls"] if "args" in entry for name in entry["names"]}
        self.assertEqual(len(plain), len(set(plain)))
        self.assertEqual(limited & set(plain), set())

    def test_both_architectures_have_what_they_need(self):
        for name in sorted(listed()):
            x86, arm = (confined.number_of(name, architecture) for architecture in (X86, ARM))
            self.assertTrue(x86 >= 0 or arm >= 0, f"{name} is no call of either")
            if arm < 0:
                self.assertIn(name, ON_ARM)
                if ON_ARM[name] is not None:
                    self.assertIn(ON_ARM[name], allowed())
        for architecture in PROFILE["architectures"]:
            self.assertTrue(confined.make_filter(PROFILE, architecture))

    def test_what_the_programs_import_is_listed(self):
        """Also calls that no test makes. Functions without a call's name are not seen here."""
        checked = 0
        for program in ("fairlead-proxy", "ctl/fairleadctl"):
            symbols = subprocess.run(["nm", "-D", "--undefined-only", programs() / program], check=True, capture_output=True,
                                     text=True, timeout=seconds(20)).stdout
            for name in re.findall(r" U (\w+)@+GLIBC", symbols):
                made = MAKES.get(name, name)
                if confined.number_of(made, X86) >= 0:
                    self.assertIn(made, listed(), f"{program} imports {name}")
                    checked += 1
        self.assertGreater(checked, 40)

    def test_other_calls_are_refused(self):
        native = confined.MACHINES[platform.machine()]
        calls = [(("clone", (signal.SIGCHLD, 0, 0, 0, 0)) if name == "fork" else (name, arguments)) for name, arguments in FORBIDDEN]
        calls = [call for call in calls if confined.number_of(call[0], native) >= 0]
        refused = dict(zip(map(str, calls), outcomes(calls, confine=True)))
        self.assertEqual({call: number for call, number in refused.items() if number != errno.EPERM}, {})
        # Without the profile, most of them have another outcome, so that the test does not see what the kernel refuses anyway.
        free = [call for call in calls if call[0] != "clone"]
        others = [call for call, number in zip(free, outcomes(free, confine=False)) if number != errno.EPERM]
        self.assertGreater(len(others), len(calls) // 2, others)
        names = [(name, arguments) for name, arguments, _ in PERMITTED]
        self.assertEqual(outcomes(names, confine=True), [number for _, _, number in PERMITTED])

    def test_the_killing_variant_ends_a_program_at_a_missing_call(self):
        done = subprocess.run([sys.executable, "-B", confined.__file__, "--kill", confined.PROFILE, "/usr/bin/unshare", "--uts", "/bin/true"],
                              check=False, capture_output=True, timeout=seconds(20))
        self.assertEqual(done.returncode, -signal.SIGSYS, done.stderr)

    def test_a_proxy_under_the_profile_carries_smcr(self):
        """As in a container: bpf is refused, and another has to say who speaks SMC-R."""
        wrapper = [sys.executable, "-B", confined.__file__, "--kill", confined.PROFILE]
        how = {"wrapper": wrapper, "options": {"smc": {"assume": ["127.0.0.0/8"]}}}
        server = peers.serve(self, peers.echo_at_end)
        inbound = self.start("in", [listener("in", "inbound", server.address)], **how)
        outbound = self.start("out", [listener("out", "outbound", inbound.address("in"))], **how)
        for proxy in (inbound, outbound):
            status = Path(f"/proc/{proxy.pid}/status").read_text()
            self.assertRegex(status, r"\nSeccomp:\s2\n")
            self.assertRegex(status, r"\nNoNewPrivs:\s1\n")
            self.assertIn("event=no_option_program", proxy.log())
        with peers.connect(outbound.address("out")) as sock:
            sock.sendall(b"x" * 100_000)
            sock.shutdown(1)
            self.assertEqual(peers.receive_exactly(sock, 100_000), b"x" * 100_000)
        self.assert_smcr()


if __name__ == "__main__":
    main()
