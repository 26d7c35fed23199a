"""A guest as the host sees it: a QEMU process, and commands that run inside."""
import base64
import ctypes
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import kernel

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import seconds  # pylint: disable=wrong-import-position

ROOT = kernel.ROOT
BUILD = Path(os.environ.get("FAIRLEAD_BUILD", ROOT / "build/release"))
SECONDS_TO_BOOT = 300
PR_SET_PDEATHSIG = 1


class LabError(Exception):
    """A part of the lab failed."""


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A program or a Python function (tests/lab/guest) that runs in a guest."""

    def __init__(self, node, number, what):
        self.node, self.number, self.what = node, number, what
        self.events = queue.Queue()
        self.ended = threading.Event()
        self.end = None

    def handle(self, message):
        if "event" in message:
            self.events.put(message["event"])
        else:
            self.end = message
            self.ended.set()
            self.events.put(None)

    @property
    def running(self):
        return not self.ended.is_set()

    def event(self, timeout=30):
        """The next event of the function."""
        try:
            event = self.events.get(timeout=seconds(timeout))
        except queue.Empty:
            raise LabError(f"{self}: silent for {seconds(timeout)} s") from None
        if event is None:
            self.events.put(None)
            raise LabError(f"{self}: ended early: {self.complaint()}")
        return event

    def forget_events(self):
        """Discards earlier events, so that event() returns later ones only."""
        while not self.ended.is_set() and not self.events.empty():
            self.events.get()

    def wait(self, timeout=60):
        """Its exit code; negative: the signal that ended it."""
        if not self.ended.wait(seconds(timeout)):
            self.send_signal(signal.SIGKILL, group=True)
            self.ended.wait(10)
            raise LabError(f"{self}: not done after {seconds(timeout)} s: {self.complaint()}")
        return self.end["exit"]

    def value(self, timeout=60):
        """The return value of the function."""
        if self.wait(timeout) != 0 or "error" in self.end:
            raise LabError(f"{self}: {self.complaint()}")
        return self.end.get("value")

    @property
    def output(self):
        return self.end["output"]

    def complaint(self):
        end = self.end or {}
        return f"{end.get('error') or 'exit ' + str(end.get('exit'))}\n{end.get('output', '')[-2000:]}"

    def send_signal(self, number=signal.SIGTERM, group=False):
        if self.running:
            self.node.send({"id": self.number, "op": "signal", "signal": int(number),
                            "group": group})

    def stop(self, number=signal.SIGKILL, timeout=20):
        self.send_signal(number, group=True)
        return self.wait(timeout)

    def __str__(self):
        return f"{self.node.name}: {self.what}"


class Node:
    """One guest. Start it on the main thread, because it ends with the thread that started it."""

    NAMES = ("a", "b")
    MEMORY_MIB = 1536
    init = "agent"  # the program of process 1, or "systemd"

    def __init__(self, number, folder, the_kernel, initramfs, link, mtu):
        self.number, self.name = number, self.NAMES[number - 1]
        self.address = f"10.9.0.{number}"
        self.folder = folder
        self.link, self.mtu = link, mtu
        self.processes = {}
        self.count = 0
        self.lock = threading.Lock()
        self.hello = threading.Event()
        self.console = folder / f"console.{self.name}.log"
        self.console.unlink(missing_ok=True)
        self.panics = 0  # of those on the console, how many are known
        self.words = self.command(the_kernel, initramfs)
        self.port = self.listener = None
        self.switch_on()

    def switch_on(self):
        with open(self.folder / f"qemu.{self.name}.log", "ab") as log:
            self.qemu = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         preexec_fn=die_with_parent)

    def command(self, the_kernel, initramfs):
        # On a busy host the kernel's check of the timer fails, and the guest does not boot.
        words = (f"console=ttyS0 quiet panic=-1 mitigations=off no_timer_check lab.node={self.number} "
                 f"lab.modules={the_kernel.modules} lab.mtu={self.mtu} lab.init={self.init}")
        return [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-accel", os.environ.get("LAB_ACCEL", "tcg,thread=multi"), "-cpu", "max", "-smp", "2",
            "-m", str(self.MEMORY_MIB), "-kernel", the_kernel.image, "-initrd", initramfs,
            "-append", words, "-serial", "chardev:console",
            "-chardev", f"file,id=console,path={self.console},append=on",
            "-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap",
            "-virtfs", f"local,path={self.folder},mount_tag=results,security_model=none",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,path={self.folder}/agent.{self.name},server=on,wait=off",
            "-device", "virtserialport,chardev=agent,name=fairlead.agent",
            *self.wire(),
            "-device", f"virtio-net-pci,netdev=wire,mac=52:54:00:00:00:{self.number:02x},romfile=",
            "-device", "virtio-rng-pci"]

    def wire(self):
        """QEMU's options for the network "wire", which has eth0."""
        return ["-netdev", f"stream,id=wire,server={'on' if self.number == 1 else 'off'},"
                           f"addr.type=unix,addr.path={self.link}"]

    def connect(self):
        """Waits until the agent has sent its hello."""
        deadline = time.monotonic() + SECONDS_TO_BOOT
        self.port = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.port.connect(str(self.folder / f"agent.{self.name}"))
                break
            except OSError:
                self.check_alive()
                if time.monotonic() > deadline:
                    raise LabError(f"{self.name}: QEMU opens no agent port") from None
                time.sleep(0.05)
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()
        self.wait_hello()

    def wait_hello(self):
        deadline = time.monotonic() + SECONDS_TO_BOOT
        while not self.hello.wait(0.2):
            self.check_alive()
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: no word from the agent; console: {self.console_tail()}")

    def check_alive(self):
        if self.qemu.poll() is not None:
            raise LabError(f"{self.name}: QEMU ended with {self.qemu.returncode}: "
                           + (self.folder / f"qemu.{self.name}.log").read_text()[-500:]
                           + self.console_tail())

    def console_tail(self):
        return self.console.read_text(errors="replace")[-1500:] if self.console.exists() else ""

    def listen(self):
        with self.port.makefile("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # switched off in the middle of it
                message = json.loads(line)
                if "hello" in message:
                    self.hello.set()
                elif message.get("id") in self.processes:
                    process = self.processes[message["id"]]
                    process.handle(message)
        for process in list(self.processes.values()):
            if process.running:
                process.handle({"exit": -1, "output": "", "error": "the guest has gone"})

    def send(self, message):
        with self.lock:
            self.port.sendall(json.dumps(message).encode() + b"\n")

    def request(self, what, message):
        with self.lock:
            self.count += 1
            process = self.processes[self.count] = Process(self, self.count, what)
        self.send({"id": process.number, **message})
        return process

    def start(self, argv, **how):
        """Starts a program. `how`: netns, uid, cgroup, environment, memlock, log (a file name in the
        folder of results; without it the output is in .output at the end)."""
        if "log" in how:
            how["log"] = f"/tmp/results/{how['log']}"
        argv = [str(word) for word in argv]
        return self.request(" ".join(argv)[:120], {"op": "exec", "argv": argv, **how})

    def run(self, argv, timeout=60, check=True, **how):
        """Runs a program to its end and returns its output."""
        process = self.start(argv, **how)
        if process.wait(timeout) != 0 and check:
            raise LabError(f"{process}: {process.complaint()}")
        return process.output

    def spawn(self, function, netns=None, environment=None, uid=None, cgroup=None, **arguments):
        """Starts a function of tests/lab/guest: "traffic.echo"."""
        message = {"op": "call", "function": function, "arguments": arguments}
        for name, value in (("netns", netns), ("environment", environment), ("uid", uid),
                            ("cgroup", cgroup)):
            if value is not None:
                message[name] = value
        return self.request(function, message)

    def call(self, function, timeout=60, **arguments):
        return self.spawn(function, **arguments).value(timeout)

    def write(self, path, content):
        self.call("system.write", path=str(path),
                  content=base64.b64encode(content.encode()).decode())

    def stop_all(self, but=()):
        """Stops all remaining processes, so that the next scenario begins on an empty node."""
        left = [process for process in self.processes.values()
                if process.running and process not in but]
        for process in left:
            process.send_signal(signal.SIGKILL, group=True)
        for process in left:
            process.wait(20)
        self.processes = {number: process for number, process in self.processes.items()
                          if process.running}

    def has_died(self):
        """True if its kernel has panicked since the last call; then it reboots by itself."""
        before, self.panics = self.panics, self.console.read_text(errors="replace").count("Kernel panic")
        return self.panics > before

    def power_cycle(self):
        """Ends the guest abruptly and boots it; connect() waits for it. It does not reset the machine, because under
        emulation that has taken minutes."""
        self.switch_off()
        self.switch_on()

    def switch_off(self):
        self.kill()
        self.listener.join()
        self.hello.clear()

    def kill(self):
        """Ends QEMU."""
        self.qemu.kill()
        self.qemu.wait()
