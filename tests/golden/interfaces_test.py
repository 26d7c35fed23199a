#!/usr/bin/env python3
"""What users and other programs see does not change unnoticed: interfaces_test.py <build folder>

Help of all programs, the reference of the plugin, and all log events. The metrics, reasons and annotations are pages in
docs that fairleadctl makes; keys of the admin API are a golden file of tests/unit/admin.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import golden
import log_events

BUILD = Path(sys.argv.pop(1))
PROGRAMS = ("proxy/fairlead-proxy", "proxy/ctl/fairleadctl", "injector/fairlead-injector", "cni/fairlead-node")
DOCS = Path(__file__).resolve().parents[2] / "docs"
# Variables that change a default in the help, and the language of messages.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("FAIRLEAD_") and name not in ("NODE_NAME", "NAMESPACE")} | {"LC_ALL": "C"}


def output_of(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env=ENVIRONMENT, check=False, **options)
    return done.stdout + done.stderr


def subcommands(text):
    listed = text.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z][\w-]*)", listed, re.M)


def help_of(program):
    text = output_of(BUILD / program, "--help")
    pages = [f"$ {Path(program).name} --help\n{text}"]
    for command in subcommands(text):
        pages.append(f"$ {Path(program).name} {command} --help\n" + output_of(BUILD / program, command, "--help"))
    return "\n".join(pages).rstrip("\n") + "\n"


class Interfaces(unittest.TestCase):
    maxDiff = None

    def test_help(self):
        for program in PROGRAMS:
            with self.subTest(program):
                golden.check(self, f"help_{Path(program).name}.txt", help_of(program))

    def test_call_of_the_plugin_without_its_environment(self):
        text = output_of(BUILD / "cni/fairlead-cni", "--help")
        golden.check(self, "help_fairlead-cni.txt", re.sub(r"\b\d+\.\d+\.\d+\b", "VERSION", text, count=1))

    def test_pages_that_programs_make(self):
        for page in ("annotations", "metrics", "reasons", "runbook"):
            with self.subTest(page):
                made = output_of(BUILD / "proxy/ctl/fairleadctl", "docs", page)
                self.assertEqual(made, (DOCS / f"{page}.md").read_text(encoding="utf-8"),
                                 f"fairleadctl docs {page} >docs/{page}.md")

    def test_log_events(self):
        golden.check(self, "log_events.txt", log_events.inventory())


if __name__ == "__main__":
    unittest.main()
