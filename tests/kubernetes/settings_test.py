#!/usr/bin/env python3
"""Each setting says the same everywhere as its row in proxy/base/pod_settings.h: settings_test.py <fairleadctl>

A failure names the setting, the place and what has to be there.
"""
import json
import re
import sys
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "scripts"))

import settings  # noqa: E402  pylint: disable=wrong-import-position
import values_page  # noqa: E402  pylint: disable=wrong-import-position

FAIRLEADCTL = sys.argv.pop(1)
ROWS = json.loads(settings.page_of(FAIRLEADCTL, "settings"))
AGAIN = f"scripts/settings.py {FAIRLEADCTL} writes it"


def value_at(tree, path):
    for step in path.split("."):
        tree = tree.get(step, {}) if isinstance(tree, dict) else {}
    return tree


def as_text(value):
    """Of a file in YAML, as the table has it: sizes in bytes."""
    size = re.fullmatch(r"(\d+)(K|M)iB", str(value))
    return str(int(size[1]) * {"K": 1 << 10, "M": 1 << 20}[size[2]]) if size else str(value)


class Settings(unittest.TestCase):
    maxDiff = None

    def check(self, row, place, found, wanted, hint=""):
        with self.subTest(setting=row["key"], place=place):
            self.assertEqual(found, wanted, f"{row['key']}: {place} has {found!r}, and the table wants {wanted!r}. {hint}")

    def test_rows_are_whole(self):
        for row in ROWS:
            self.check(row, "the table: default", settings.is_good(row, row["default"]), True)
            self.check(row, "the table: numbers of the chart are below proxy.smc",
                       bool(row["choices"]) or row["value"] == "" or row["value"].startswith("smc."), True)
            self.check(row, "the table: numbers have an annotation", bool(row["choices"] or row["annotation"]), True)
            # The policy takes a row with an annotation below proxy.smc for a number, as the injector does.
            self.check(row, "the table: choices with an annotation have a value outside of proxy.smc",
                       not (row["choices"] and row["annotation"]) or (row["value"] != "" and not row["value"].startswith("smc.")), True)

    def test_schema(self):
        schema = json.loads((ROOT / settings.SCHEMA).read_text())
        for row in ROWS:
            if row["value"]:
                path = f"properties.proxy.{'.'.join(f'properties.{step}' for step in row['value'].split('.'))}"
                self.check(row, f"{settings.SCHEMA}: proxy.{row['value']}", value_at(schema, path), settings.rule(row), AGAIN)

    def test_values(self):
        values = yaml.safe_load((ROOT / "helm/fairlead/values.yaml").read_text())
        for row in ROWS:
            if row["value"]:
                self.check(row, f"helm/fairlead/values.yaml: proxy.{row['value']}",
                           str(value_at(values, f"proxy.{row['value']}")), row["default"])

    def test_file_of_the_proxy(self):
        text = (ROOT / "config/proxy.yaml").read_text()
        values, comments = yaml.safe_load(text), values_page.explained(text.splitlines())
        for row in ROWS:
            self.check(row, f"config/proxy.yaml: {row['key']}", as_text(value_at(values, row["key"])), row["default"])
            words = comments.get(row["key"], "")
            for number in map(str, settings.limits(row)):
                self.check(row, f"config/proxy.yaml: a comment that names {number}",
                           number in [as_text(word) for word in re.findall(r"\w+", words)], True, f"It is: {words}")

    def test_templates_read_the_rows(self):
        """None has a copy of a row."""
        for path in sorted((ROOT / "helm/fairlead/templates").glob("*")):
            text = path.read_text()
            for row in ROWS:
                for name in (row["annotation"], row["variable"]):
                    if name and not row["choices"]:
                        self.check(row, f"{path.name}: {name}", re.search(rf"[\"'/]{name}[\"']", text), None,
                                   f"{settings.CHART_ROWS} has it")

    def test_pages(self):
        """Their tables of keys that end in what is allowed and the default."""
        for page in sorted((ROOT / "docs").glob("*.md")):
            tables = "".join(re.findall(r"^\| Key \|.*\| Allowed \| Default \|\n((?:\|.*\n)+)", page.read_text(), re.M))
            for row in ROWS:
                for cells in re.findall(rf"^\| `{row['key']}` \|(.*)\|$", tables, re.M):
                    *_, allowed, usual = [cell.strip() for cell in cells.split("|")]
                    self.check(row, f"{page.name}: default", usual, row["default"])
                    self.check(row, f"{page.name}: allowed", set(re.findall(r"\d+", allowed)), set(map(str, settings.limits(row))))

    def test_made_files(self):
        for path, wanted in settings.made_files(FAIRLEADCTL):
            found = (ROOT / path).read_text()
            for row in ROWS:
                def lines(text, names=(row["annotation"], row["key"])):
                    return [line for line in text.splitlines() if any(re.search(rf"[ /\"`]{name}[ \"`]", line) for name in names if name)]
                self.check(row, path, lines(found), lines(wanted), AGAIN)
            self.assertEqual(found, wanted, f"{path}: {AGAIN}")
        self.assertEqual((ROOT / "docs/values.md").read_text(), values_page.page(), f"docs/values.md: {AGAIN}")


if __name__ == "__main__":
    unittest.main()
