"""The node's broker for the proxies of one test: fairlead-node broker, with a name of its own.

Environment: FAIRLEAD_NODE, the program; default: cni/fairlead-node beside the folder FAIRLEAD_BIN.
"""
import itertools
import os
import subprocess
import tempfile
from pathlib import Path

BUILD = Path(os.environ.get("FAIRLEAD_BIN", Path(__file__).parents[2] / "build/dev/proxy")).resolve().parent
PROGRAM = Path(os.environ.get("FAIRLEAD_NODE", BUILD / "cni/fairlead-node"))
NAMESPACES = Path("/run/netns")
COUNT = itertools.count()


class NodeBroker:
    """It finds proxies of any user, in this network namespace and, for root, in those of ip-netns(8)."""

    def __init__(self):
        self.name = f"@fairlead-{os.getpid()}-{next(COUNT)}"
        self.folder = tempfile.TemporaryDirectory(prefix="fairlead-broker-")
        words = [PROGRAM, "broker", "--run-dir", self.folder.name, "--socket-name", self.name]
        if os.geteuid() == 0 and NAMESPACES.is_dir():
            words += ["--netns-dir", NAMESPACES]
        self.log_path = Path(self.folder.name) / "log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def settings(self):
        """Of the proxies."""
        return {"devices": {"shm": {"broker": self.name}}}

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()
