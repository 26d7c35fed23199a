#!/usr/bin/env python3
"""Alerts and dashboard: promtool accepts every expression, and all metrics and labels exist.

Each alert has a case in alerts_test.yaml that fires it and one that does not, run by promtool; and a section in
docs/alerts.md.
"""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import yaml

import dashboard

ROOT = Path(__file__).parents[2]
FILES = ROOT / "helm" / "fairlead" / "files"
RULES = yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]
ALERTS = [rule for group in RULES for rule in group["rules"]]
# These labels come from the scrape, not from Fairlead.
FOREIGN_LABELS = {"namespace", "pod", "container", "le"}


def known_metrics():
    """{name: labels} from docs/metrics.md, which is generated from the code."""
    known = {}
    for row in re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", (ROOT / "docs/metrics.md").read_text(), re.M):
        labels = set(re.findall(r"`(\w+)`", row[2]))
        for suffix in ("_bucket", "_sum", "_count") if row[1] == "histogram" else ("",):
            known[row[0] + suffix] = known.get(row[0] + suffix, set()) | labels
    return known


def promtool(*arguments):
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def dashboard_expressions():
    for panel in dashboard.PANELS:
        for expression in dashboard.expressions(panel):
            yield panel["title"], expression


class Monitoring(unittest.TestCase):
    def test_rules_are_valid(self):
        done = promtool("check", "rules", FILES / "rules.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_alerts_fire_when_they_should(self):
        done = promtool("test", "rules", Path(__file__).parent / "alerts_test.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_is_tested_both_ways_and_explained(self):
        cases = yaml.safe_load((Path(__file__).parent / "alerts_test.yaml").read_text())["tests"]
        tested = [test for case in cases for test in case["alert_rule_test"]]
        page = (ROOT / "docs/alerts.md").read_text()
        for rule in ALERTS:
            mine = [test for test in tested if test["alertname"] == rule["alert"]]
            self.assertTrue(any(test["exp_alerts"] for test in mine), rule["alert"])
            self.assertTrue(any(not test["exp_alerts"] for test in mine), rule["alert"])
            self.assertIn(f"## {rule['alert']}\n", page)

    def test_the_page_names_the_checks_that_exist(self):
        def names_in(*patterns):
            text = "".join(path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern)))
            return set(re.findall(r'"([a-z]\w*)"', text))
        known = (names_in("proxy/admin/checks.cc", "proxy/admin/sources.h", "proxy/ctl/local_checks.cc"),
                 names_in("proxy/ctl/cluster/*_checks.cc"))
        rows = re.findall(r"^\| (Fairlead\w+) \|([^|]*)\|([^|]*)\|$", (ROOT / "docs/alerts.md").read_text(), re.M)
        self.assertEqual([row[0] for row in rows], [rule["alert"] for rule in ALERTS])
        for row in rows:
            for named, names in zip(row[1:], known):
                self.assertLessEqual(set(re.findall(r"`(\w+)`", named)), names, row[0])

    def test_dashboard_expressions_are_valid(self):
        rules = [{"record": f"panel:{i}", "expr": expression}
                 for i, (_, expression) in enumerate(dashboard_expressions())]
        self.assertGreater(len(rules), 15)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            done = promtool("check", "rules", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_metrics_and_labels_exist(self):
        known = known_metrics()
        expressions = [(rule["alert"], rule["expr"]) for rule in ALERTS] + list(dashboard_expressions())
        for where, expression in expressions:
            names = set(re.findall(r"\b((?:fairlead|process)_\w+)\b", expression))
            self.assertTrue(names, where)
            labels = set()
            for name in names:
                self.assertIn(name, known, where)
                labels |= known[name]
            used = set(re.findall(r"[{,]\s*(\w+)\s*[=!]", expression))
            for group in re.findall(r"by \(([^)]*)\)", expression):
                used |= {label.strip() for label in group.split(",")}
            self.assertLessEqual(used - FOREIGN_LABELS, labels, where)

    def test_reasons_exist(self):
        reasons = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reasons.md").read_text(), re.M))
        outcomes = set(re.findall(r'return "(\w+)";', (ROOT / "injector/decision.cc").read_text()))
        for rule in ALERTS:
            for text in re.findall(r'reason[=!]~"([^"]*)"', rule["expr"]):
                allowed = outcomes if "injector" in rule["expr"] else reasons
                self.assertLessEqual(set(text.split("|")), allowed, rule["alert"])

    def test_the_runbook_says_which_reasons_alerts_count(self):
        def left_out(alert):
            """Reasons that the alert never counts."""
            expression = next(rule["expr"] for rule in ALERTS if rule["alert"] == alert)
            named = re.findall(r'reason="(\w+)"', expression)
            return {reason for text in re.findall(r'reason!~"([^"]*)"', expression)
                    for reason in text.split("|")} - set(named)
        runbook = (ROOT / "docs/runbook.md").read_text()
        sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", runbook, re.M | re.S))
        for alert in ("FairleadFallbackRateHigh", "FairleadAllTrafficFallback"):
            said = {name for name, text in sections.items()
                    if "No alert counts it." in text or f"{alert} does not." in text}
            self.assertEqual(said, left_out(alert), alert)


if __name__ == "__main__":
    if not shutil.which("promtool"):
        print("skipped: no promtool; Debian's package is prometheus")
        sys.exit(77)
    unittest.main(verbosity=1)
