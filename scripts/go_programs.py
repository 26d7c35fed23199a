"""Programs that tests need and Debian lacks. Go builds them into the user's cache, where the tests look for them.

A test never builds one itself: it would hold up the others, or wait for a download on a machine without network.
"""
import dataclasses
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead"
PROBE_SECONDS_MAX = 10


@dataclasses.dataclass(frozen=True)
class Program:
    """What one script builds."""
    script: str
    names: tuple[str, ...]
    folder: str  # in the cache; `*` stands for a version
    runs: tuple[str, ...]  # of scripts/run_tests.py
    minutes: int  # on two CPUs, with what has to be fetched
    source: str = ""  # in the project: a program that is older is built again

    def missing(self):
        return [name for name in self.names if not self.find(name)]

    def find(self, name):
        """Its path, or None."""
        found = find(name, self.folder)
        if found and self.source and Path(found).stat().st_mtime < (ROOT / self.source).stat().st_mtime:
            return None
        return found


HELM = Program("scripts/helm.sh", ("helm",), "bin", ("dev", "release"), 1)
# Who runs "dev" alone goes without a cluster: to build it takes as long as that run.
CLUSTER = Program("scripts/kubernetes.sh",
                  ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"),
                  "kubernetes-*", ("release",), 9)
DRA_DRIVER = Program("scripts/dra_driver.sh", ("dra-driver",), "dra-driver-*", ("release",), 1,
                     "tests/two_nodes/dra_driver/main.go")  # of use in the cluster only
PROGRAMS = (HELM, CLUSTER, DRA_DRIVER)


def find(name, folder):
    """Path of a program in the search path, or of its newest version in the cache; or None."""
    if installed := shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
        return installed
    built = find_built(name, folder)
    return str(built) if built else None


def find_built(name, folder):
    """Path of a program in its newest version in the cache, or None."""
    built = [path for path in CACHE.glob(f"{folder}/{name}") if os.access(path, os.X_OK)]
    return max(built, key=lambda path: [int(number) for number in re.findall(r"\d+", path.parent.name)], default=None)


def why_no_go():
    """Why Go can build nothing here, or nothing."""
    if not shutil.which("go"):
        return "go is not installed"
    proxy = subprocess.run(["go", "env", "GOPROXY"], capture_output=True, text=True, check=False).stdout.split(",")[0].strip()
    if not proxy.startswith("http"):
        return ""
    probe = ["curl", "-sSfL", "-m", str(PROBE_SECONDS_MAX), "-o", os.devnull, f"{proxy}/helm.sh/helm/v3/@v/list"]
    return "" if subprocess.run(probe, capture_output=True, check=False).returncode == 0 else \
        f"the module proxy of Go does not answer within {PROBE_SECONDS_MAX} s"


def build_missing(runs, minutes_free=None):
    """Builds what the tests of these runs lack. `minutes_free`: which nothing else needs; None if time does not matter.

    Says what it builds, or why not.
    """
    wanted = [program for program in PROGRAMS if set(program.runs) & set(runs) and program.missing()]
    if not wanted:
        return
    if reason := why_no_go():
        print(f"Go builds no {', '.join(name for program in wanted for name in program.missing())}: {reason}.", flush=True)
        return
    for program in wanted:
        names = ", ".join(program.missing())
        if minutes_free is not None and program.minutes > minutes_free:
            print(f"Go builds no {names}: that takes {program.minutes} minutes, and {max(0, minutes_free):.1f} are left "
                  f"beside the tests; {program.script} builds it.", flush=True)
            continue
        print(f"Go builds {names}: about {program.minutes} minutes.", flush=True)
        try:
            done = subprocess.run([ROOT / program.script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, check=False, timeout=2 * 60 * program.minutes)
            failure = " ".join(done.stderr.split())[-300:] if done.returncode != 0 else ""
        except subprocess.TimeoutExpired:
            failure = f"not done in {2 * program.minutes} minutes"
        if failure:
            print(f"{program.script}: {failure}", flush=True)
        if minutes_free is not None:
            minutes_free -= program.minutes
