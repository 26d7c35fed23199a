"""Interface to the test suites of other projects: units, each with checks that pass or fail."""
import contextlib
import os
import signal
import subprocess
import time

PASSED, FAILED = "passed", "failed"
WHOLE = "(the whole unit)"  # the check that its program ended well
# Reasons for known differences; docs/transparency.md has more on each.
EARLY_ACCEPT = "wants connect() to be refused; the sidecar accepts before it can know"
BUFFERED = "wants a write to fail of which the sidecars still take the rest"
RACE_OF_CONNECTIONS = "asks on a second connection before the first has answered; TCP keeps no order between the two"
RACE_WITH_RESET = "wants a reset to have arrived at the instant that it was sent"
SIDECAR_PORT = "compares the port that accept() reports with the client's; it is that of the client's sidecar"
START_SECONDS_MAX = 30


class Suite:
    """A suite runs in the network namespace of the process; its servers are on the loopback.

    name             of the suite, as SUITES has it
    excerpt          units for the short run, or a slice of all units
    known            (unit, check, reason) of checks that may differ; every report lists those that do. A check is a
                     pattern of fnmatch.
    """

    name = ""
    excerpt = ()
    known = ()

    def prepare(self):
        """Gets the requirements of the suite; raises Missing with the reason if one is not available."""

    def units(self):
        """The names of all units."""
        raise NotImplementedError

    def run(self, units, folder):
        """Runs units in `folder`; yields {unit: {check: PASSED or FAILED}} as they end."""
        raise NotImplementedError


def log_of(folder, unit):
    """The file for the output of a unit."""
    return folder / f"{unit.replace('/', '.')}.log"


def tail(path, characters=3000):
    return path.read_text(errors="replace")[-characters:] if path.exists() else ""


def finish(process):
    """Ends a process and all of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_logged(command, log, seconds, **how):
    """The exit code of a program whose output goes to the file `log`; None after a timeout."""
    with open(log, "wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out, start_new_session=True, **how)
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        with open(log, "ab") as out:
            out.write(f"\ntimed out after {seconds} s\n".encode())
        return None
    finally:
        finish(process)


def listens(port):
    """Reads the kernel's table for a listener, because a proxy would accept a connection to a closed port too."""
    shown = subprocess.run(["ss", "-Htln", f"sport = :{port}"], capture_output=True, text=True, check=True)
    return bool(shown.stdout.strip())


@contextlib.contextmanager
def server(command, port, log, ready="", **how):
    """A server that has begun to listen on `port` and has logged `ready`; ended afterwards."""
    with open(log, "ab") as out:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=out, start_new_session=True, **how)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not (listens(port) and ready in log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not listen: {tail(log)}")
            time.sleep(0.02)
        yield process
    finally:
        finish(process)
