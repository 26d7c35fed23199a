#!/usr/bin/env python3
"""The proxy accepts the settings of the injection: sidecar_test.py <folder of fairlead-proxy>

For every golden pod, fairlead-proxy --validate gets the variables of the sidecar and the file of the
image.
"""
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
POD_YAML = HERE.parent.parent / "config" / "pod.yaml"


def main():
    proxy = Path(sys.argv[1]) / "fairlead-proxy"
    checked = 0
    for path in sorted((HERE / "expected").glob("*.json")):
        expected = json.loads(path.read_text())
        if expected["outcome"] != "injected":
            continue
        sidecar = expected["pod"]["spec"]["initContainers"][0]
        assert sidecar["args"] == ["--config", "/etc/fairlead/" + POD_YAML.name], sidecar["args"]
        variables = {entry["name"]: entry["value"] for entry in sidecar["env"]}
        done = subprocess.run([proxy, "--validate", POD_YAML], env=variables, capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode != 0 or "ignored" in done.stderr:
            print(f"{path.name}: {done.stdout}{done.stderr}")
            return 1
        checked += 1
    assert checked >= 5, checked
    print(f"{checked} sidecars understood")
    return 0


if __name__ == "__main__":
    sys.exit(main())
