#!/usr/bin/env python3
"""fairleadctl inject changes every golden pod as the webhook does: ctl_test.py <fairleadctl>

As JSON, as YAML, inside a Deployment and in streams of several documents.
"""
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

sys.path.insert(1, str(Path(__file__).parents[1]))

import documented  # pylint: disable=wrong-import-position

HERE = Path(__file__).parent
CTL = sys.argv.pop(1)
CASES = sorted((HERE / "cases").glob("*.json"))


def inject(text, *arguments):
    done = subprocess.run([CTL, "inject", "-f", "-", *arguments], input=text, capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def load(path):
    case = json.loads(path.read_text())
    arguments = ["--settings", HERE / "settings.json"] + (["--all"] if case["namespace_opted_in"] else [])
    return case, json.loads((HERE / "expected" / path.name).read_text()), arguments


class Inject(unittest.TestCase):
    def test_golden_pods_as_json_and_yaml(self):
        for path in CASES:
            case, expected, arguments = load(path)
            for text, parse in ((json.dumps(case["pod"]), json.loads), (yaml.safe_dump(case["pod"]), yaml.safe_load)):
                code, out, err = inject(text, *arguments)
                self.assertEqual(parse(out), expected["pod"], path.name)
                self.assertEqual(code, 1 if expected["warnings"] else 0, err)
                for warning in expected["warnings"]:
                    self.assertIn(warning, err)

    def test_templates_and_streams(self):
        documents, wanted = [], []
        for path in CASES:
            case, expected, _ = load(path)
            if case["namespace_opted_in"]:
                continue
            for pod, into in ((case["pod"], documents), (expected["pod"], wanted)):
                template = {key: pod[key] for key in ("metadata", "spec")}
                into += [{"kind": "ConfigMap", "data": {"a": "yes", "b": "1.0", "c": "0x1f", "d": "~\n- x: y\t#"}},
                         {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}},
                         {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}},
                         {"kind": "List", "items": [copy.deepcopy(pod), {"kind": "Service"}]}]
        _, out, _ = inject(yaml.safe_dump_all(documents), "--settings", HERE / "settings.json")
        self.assertEqual(list(yaml.safe_load_all(out)), wanted)

    def test_values_keep_their_meaning(self):
        text = ('a: "yes"\nb: on\nc: 012\nd: "012"\ne: 1e3\nf: ~\ng: "~"\nh: 0x10\ni: "1:30"\nj: |\n  two\n  lines\n'
                'k: [1, -2.5, {l: []}]\nm: {}\nn: "- a"\no: "x: y"\np: "caf\\u00e9"\nq: &x {r: s}\nt: *x\n"u v": w\n'
                '"": empty\nv: "2026-11-21"\nw: " x"\nx: "x "\ny2: "#"\nz: "a #b"\n')
        first = yaml.safe_load(text)
        code, out, err = inject(text, "--image", "i")
        self.assertEqual(code, 0, err)
        second = yaml.safe_load(out)
        first["e"] = 1000.0  # PyYAML reads 1e3 as text, kubectl as a number
        for key in first:
            self.assertEqual(second[key], first[key], key)
        self.assertEqual(inject(out, "--image", "i")[1], out)

    def test_commands_of_the_page(self):
        """docs/injection.md: into a file, with the settings of an installation and without one."""
        lines = documented.commands("docs/injection.md", "Modes", "fairleadctl inject ")
        self.assertEqual(len(lines), 2)
        case = json.loads((HERE / "cases/annotated.json").read_text())
        for line in lines:
            with tempfile.TemporaryDirectory() as folder:
                os.symlink(Path(CTL).resolve(), f"{folder}/fairleadctl")
                shutil.copy(HERE / "settings.json", folder)
                Path(folder, "app.yaml").write_text(yaml.safe_dump(case["pod"]))
                subprocess.run(["sh", "-c", line], cwd=folder, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                               timeout=60, check=True)
                made = yaml.safe_load(Path(folder, "injected.yaml").read_text())
                self.assertEqual(made["spec"]["initContainers"][0]["name"], "fairlead-proxy", line)

    def test_mistakes_are_named(self):
        for text, arguments, expected in (
                ("a: [", ["--image", "i"], "not valid YAML"),
                ("[a]: b", ["--image", "i"], "line 1, column 1: a key is no text"),
                ("a: b", [], "allowed: --settings FILE or --image IMAGE"),
                ("a: b", ["--settings", "/nowhere"], "/nowhere: cannot be read")):
            code, out, err = inject(text, *arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(expected, err)


if __name__ == "__main__":
    unittest.main(verbosity=1)
