"""The real helm: in the path, or built by Go and kept in the user's cache."""
import os
import shutil
import subprocess
from pathlib import Path

CHART = Path(__file__).parents[2] / "helm" / "fairlead"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead" / "bin"
SETTINGS = ("--set", "image.repository=registry.example/fairlead")
BUILD_SECONDS_MAX = 400


def find_helm():
    """Path of helm, or the reason why it is missing."""
    for place in (os.environ.get("FAIRLEAD_HELM"), shutil.which("helm"), CACHE / "helm"):
        if place and Path(place).exists():
            return str(place), ""
    go = shutil.which("go")
    if not go:
        return None, "neither helm nor go is installed"
    try:
        done = subprocess.run([go, "install", "helm.sh/helm/v3/cmd/helm@latest"], env={**os.environ, "GOBIN": str(CACHE)},
                              capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        return None, f"go install of helm took more than {BUILD_SECONDS_MAX} s"
    if done.returncode != 0:
        return None, "go cannot fetch helm: " + " ".join(done.stderr.split())[-200:]
    return str(CACHE / "helm"), ""


def template(helm, *arguments, kubernetes="1.36.0", chart=CHART):
    """Exit code, standard output, standard error."""
    done = subprocess.run([helm, "template", "fairlead", chart, "--namespace", "fairlead-system",
                           "--kube-version", kubernetes, *SETTINGS, *arguments],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr
