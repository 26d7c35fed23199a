"""The node's broker for the proxies of one test: fairlead-node broker, with a name of its own.

Environment: FAIRLEAD_NODE, the program; default: cni/fairlead-node beside the folder FAIRLEAD_BIN.
"""
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))

from suite import seconds  # pylint: disable=wrong-import-position

CRASH_WORDS = re.compile(r"assertion failed|Sanitizer|runtime error:|terminate called")
BUILD = Path(os.environ.get("FAIRLEAD_BIN", Path(__file__).parents[2] / "build/dev/proxy")).resolve().parent
PROGRAM = Path(os.environ.get("FAIRLEAD_NODE", BUILD / "cni/fairlead-node"))
NAMESPACES = Path("/run/netns")
COUNT = itertools.count()


class NodeBroker:
    """It finds proxies in this network namespace and, for root, in those of ip-netns(8)."""

    def __init__(self, *options):
        self.name = f"@fairlead-{os.getpid()}-{next(COUNT)}"
        self.folder = tempfile.TemporaryDirectory(prefix="fairlead-broker-")
        self.words = [PROGRAM, "broker", "--run-dir", self.folder.name, "--socket-name", self.name, *options]
        if os.geteuid() == 0 and NAMESPACES.is_dir():
            self.words += ["--netns-dir", NAMESPACES]
        self.log_path = Path(self.folder.name) / "log"
        self.start()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def restart(self):
        """As if it were killed."""
        self.process.kill()
        self.process.wait()
        self.start()

    def settings(self):
        """Of the proxies."""
        return {"devices": {"shm": {"broker": self.name}}}

    def log(self):
        return self.log_path.read_text(errors="replace")

    def finish(self):
        """Stops the process; returns an error text, or None."""
        self.process.terminate()
        try:
            self.process.wait(timeout=seconds(20))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        log = self.log()
        self.folder.cleanup()
        if self.process.returncode != 0 or CRASH_WORDS.search(log):
            return f"the broker ended with {self.process.returncode}:\n{log[-4000:]}"
        return None
