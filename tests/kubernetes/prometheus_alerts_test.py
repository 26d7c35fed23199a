#!/usr/bin/env python3
"""Each alert fires and stays silent in a real Prometheus.

The series are those of alerts_test.yaml. They are written into a database so that they end now, and a Prometheus that
starts on it evaluates the chart's rules. promtool tests how long an expression has to hold; here `for` is zero.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import yaml

import dashboard

ROOT = Path(__file__).parents[2]
sys.path.insert(1, str(ROOT / "tests" / "integration"))

from harness import wait_until  # pylint: disable=wrong-import-position

RULES = yaml.safe_load((ROOT / "helm" / "fairlead" / "files" / "rules.yaml").read_text())
# Strings as they are: "0x60" is no number here.
CASES = yaml.load((Path(__file__).parent / "alerts_test.yaml").read_text(), yaml.BaseLoader)["tests"]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration):
    """Seconds of a duration in Prometheus' notation: 90s, 40m, 1h30m; a number is seconds."""
    parts = re.findall(r"(\d+)([smhd])", str(duration))
    return sum(int(count) * UNITS[unit] for count, unit in parts) if parts else int(duration)


def samples(notation):
    """Values of promtool's notation: 0+3x60, 5x10, _x3, 1 2 3. A missing sample is None."""
    found = []
    for word in str(notation).split():
        match = re.fullmatch(r"(-?[\d.e]+|_)(?:([+-][\d.e]+))?(?:x(\d+))?", word)
        assert match, f"{word}: not understood"
        first, step, times = match.groups()
        # promtool: "a+bxn" and "axn" are n+1 samples, "_xn" is n.
        count = int(times or 0) + (first != "_") if times else 1
        found += [None if first == "_" else float(first) + float(step or 0) * i for i in range(count)]
    return found


WAITS = {rule["alert"]: seconds(rule.get("for", "0s")) for group in RULES["groups"] for rule in group["rules"]}


class Situation:
    """The series of one case at one of its times, and what is expected of alerts then."""

    def __init__(self, case, eval_time):
        self.eval_time = seconds(eval_time)
        self.step = seconds(case["interval"])
        self.series = case["input_series"]
        tests = [test for test in case["alert_rule_test"] if seconds(test["eval_time"]) == self.eval_time]
        self.firing = {test["alertname"]: sorted(sorted(one["exp_labels"].items()) for one in test["exp_alerts"])
                       for test in tests if test["exp_alerts"]}
        self.silent = {test["alertname"] for test in tests if not test["exp_alerts"]}

    def shows(self):
        return {(name, True) for name in self.firing} | {(name, False) for name in self.silent}

    def openmetrics(self, now):
        lines, begin = [], now - self.eval_time
        for row in sorted(self.series, key=lambda row: row["series"]):
            name = re.sub(r'",\s+', '",', row["series"])
            # The clock of promtool begins at zero.
            epoch = begin if "_timestamp_seconds{" in name else 0
            for index, value in enumerate(samples(row["values"])):
                at = index * self.step
                if value is not None and at <= self.eval_time:
                    lines.append(f"{name} {value + epoch} {begin + at}")
        return "\n".join([*lines, "# EOF", ""])


SITUATIONS = [Situation(case, time_) for case in CASES
              for time_ in sorted({test["eval_time"] for test in case["alert_rule_test"]})]


class Prometheus(dashboard.Prometheus):
    """With rules, and with the database in its folder."""

    def __init__(self, folder, rules):
        (folder / "rules.yaml").write_text(json.dumps(rules))
        super().__init__(folder, [], 1, rule_files=[str(folder / "rules.yaml")])


class Alerts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="fairlead-alerts-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def evaluate(self, situation):
        """{name: (labels of each alert that fires, whether it would with its `for`)} after an evaluation."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "series").write_text(situation.openmetrics(int(time.time())))
        done = subprocess.run(["promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "series", folder / "tsdb"],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rules = {"groups": [{**group, "interval": "1s", "rules": [{**rule, "for": "0s"} for rule in group["rules"]]}
                            for group in RULES["groups"]]}
        prometheus = Prometheus(folder, rules)
        self.addCleanup(prometheus.close)

        def evaluated():
            rows = [rule for group in prometheus.ask("rules", "groups", type="alert") for rule in group["rules"]]
            return rows if rows and all(rule["health"] != "unknown" for rule in rows) else None
        rows = wait_until(evaluated, "an evaluation of every rule", 60)
        self.assertEqual([(row["name"], row["lastError"]) for row in rows if row["health"] != "ok"], [])
        found = {}
        for row in rows:
            labels = sorted(sorted((key, value) for key, value in alert["labels"].items() if key != "alertname")
                            for alert in row["alerts"] if alert["state"] == "firing")
            before = time.time() - WAITS[row["name"]]
            found[row["name"]] = labels, bool(labels and prometheus.ask("query", query=row["query"], time=before))
        prometheus.close()
        return found

    def test_each_alert_fires_and_is_silent(self):
        missing = {(name, fires) for name in WAITS for fires in (True, False)}
        left = list(SITUATIONS)
        while missing and left:
            situation = max(left, key=lambda one: len(one.shows() & missing))
            left.remove(situation)
            found = self.evaluate(situation)
            for name, labels in situation.firing.items():
                self.assertEqual(found[name][0], [[tuple(pair) for pair in one] for one in labels],
                                 f"{name}: series {situation.series}")
                missing.discard((name, True))
            for name in situation.silent:
                labels, lasts = found[name]
                self.assertFalse(lasts, f"{name} fires: {labels}; series {situation.series}")
                if not labels:
                    missing.discard((name, False))
        self.assertEqual(missing, set(), "alerts that were not shown to fire (True) or to be silent (False)")


if __name__ == "__main__":
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            print(f"skipped: no {program}; Debian's package is prometheus")
            sys.exit(77)
    unittest.main(verbosity=1)
