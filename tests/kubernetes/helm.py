"""The real helm: in the path, or in the user's cache, where scripts/helm.sh builds it."""
import os
import subprocess
import sys
from pathlib import Path

import yaml

sys.path.insert(1, str(Path(__file__).parents[2] / "scripts"))

import go_programs  # pylint: disable=wrong-import-position

CHART = Path(__file__).parents[2] / "helm" / "fairlead"
SETTINGS = ("--set", "image.repository=registry.example/fairlead")


def find_helm():
    """Path of helm, or the reason why it is missing."""
    found = os.environ.get("FAIRLEAD_HELM") or go_programs.HELM.find("helm")
    return (found, "") if found else (None, "no helm; scripts/helm.sh builds it")


def template(helm, *arguments, kubernetes="1.36.0", chart=CHART):
    """Exit code, standard output, standard error."""
    done = subprocess.run([helm, "template", "fairlead", chart, "--namespace", "fairlead-system",
                           "--kube-version", kubernetes, *SETTINGS, *arguments],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def render(helm, *arguments, **how):
    """The objects of the chart."""
    code, text, error = template(helm, *arguments, **how)
    assert code == 0, error
    return [thing for thing in yaml.safe_load_all(text) if thing]
