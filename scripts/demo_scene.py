"""Everything that a run of the demo, or of an example, has created, and its removal."""
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

SECONDS_TO_END = 4
STEP_SECONDS_MAX = 30
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("FAIRLEAD_")}  # these are settings of another proxy
ENVIRONMENT["PATH"] = ENVIRONMENT.get("PATH", "") + ":/usr/sbin:/sbin"  # folders of the servers


class Failure(Exception):
    """Error text for the last line."""


def say(text=""):
    print(text, flush=True)


def expect(holds, otherwise):
    if not holds:
        raise Failure(otherwise)


def wait_for(what, holds):
    deadline = time.monotonic() + STEP_SECONDS_MAX
    while not holds():
        expect(time.monotonic() < deadline, f"waited {STEP_SECONDS_MAX} s for {what}")
        time.sleep(0.02)


def missing(programs):
    """Those that are not installed."""
    return [name for name in programs if not shutil.which(name, path=ENVIRONMENT["PATH"])]


class Scene:
    """Processes, network namespaces and one directory. All names begin with `prefix`."""

    def __init__(self, prefix="fairlead-demo-"):
        self.prefix = prefix
        # Not below $TMPDIR: a proxy that runs as another user needs access.
        self.directory = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
        self.directory.chmod(0o755)
        self.started = []
        self.namespaces = []
        self.broker = None  # its name

    def start_broker(self, node, *options):
        """The node's broker, through which the proxies share memory."""
        self.broker = f"@{self.prefix}{os.getpid()}"
        self.start("broker", [node, "broker", "--run-dir", self.directory / "broker", "--socket-name", self.broker,
                              *options])

    def write(self, name, text):
        (self.directory / name).write_text(text, encoding="utf-8")
        return self.directory / name

    def start(self, name, command, **options):
        """Starts a process in its own session, so that Ctrl-C reaches only this program. Its output is in <name>.log.
        `options` of Popen take precedence."""
        with open(self.directory / f"{name}.log", "wb") as log:
            self.started.append(subprocess.Popen(command, **{
                "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": self.directory,
                "env": ENVIRONMENT, "start_new_session": True, **options}))
        return self.started[-1]

    def run(self, command, seconds=60):
        """Runs a command to its end and returns its output."""
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8", env=ENVIRONMENT,
                                  start_new_session=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"{shown(command)} took longer than {seconds} s") from None
        if done.returncode != 0:
            raise Failure(f"{shown(command)}: {done.stdout.strip()[-300:] or done.returncode}")
        return done.stdout

    def add_namespace(self, name):
        self.namespaces.append(name)
        self.run(["ip", "netns", "add", name])

    def stop(self, process):
        """Sends SIGTERM first."""
        self.started.remove(process)
        process.terminate()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self):
        for process in self.started[::-1]:
            self.stop(process)
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], env=ENVIRONMENT, check=False,
                           stderr=subprocess.DEVNULL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def keep(self):
        """Leaves everything running, with a script that stops it."""
        pids = " ".join(str(process.pid) for process in self.started[::-1])
        namespaces = "".join(f"ip netns del {name}\n" for name in self.namespaces)
        return self.write("stop", f"kill {pids}\n{namespaces}rm -r {self.directory}\n")


def shown(command):
    """A command as a user types it, without the prefix that runs it in its pod."""
    words = list(map(str, command[2:] if command[0] == "nsenter" else command))
    return " ".join([os.path.basename(words[0]), *words[1:]])
