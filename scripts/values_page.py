#!/usr/bin/env python3
"""Prints docs/values.md, from the chart's values.yaml (comments, defaults) and values.schema.json (allowed values).

    scripts/values_page.py >docs/values.md
"""
import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).parent.parent / "helm" / "fairlead"


def explained(lines):
    """{path: comment} of each key with a comment above it."""
    path, comment, found = [], [], {}
    for line in lines:
        if match := re.match(r"\s*# ?(.*)", line):
            comment.append(match.group(1))
            continue
        if match := re.match(r"( *)([A-Za-z]\w*):", line):
            path = path[:len(match.group(1)) // 2] + [match.group(2)]
            found[".".join(path)] = " ".join(comment)
        comment = []
    return found


def allowed(rule):
    if "description" in rule:
        return rule["description"]
    if "enum" in rule:
        return ", ".join(f"`{json.dumps(value) if isinstance(value, bool) else value}`" for value in rule["enum"])
    if "minimum" in rule:
        text = f"{rule['minimum']} to {rule['maximum']}"
        return text + (f", not {', '.join(map(str, rule['not']['enum']))}" if "not" in rule else "")
    if "pattern" in rule:
        return "`" + rule["pattern"].replace("|", "\\|") + "`"
    return str(rule.get("type", ""))


def leaves(values, rule, path=""):
    for key, value in values.items():
        below = rule["properties"][key]
        if isinstance(value, dict) and value and "properties" in below:
            yield from leaves(value, below, f"{path}{key}.")
        else:
            yield f"{path}{key}", value, below


def page():
    text = (CHART / "values.yaml").read_text()
    comments = explained(text.splitlines())
    rows = ["# Values of the chart", "",
            "<!-- Made by `scripts/values_page.py`. Change values.yaml or values.schema.json, then run it again. -->", "",
            "The chart is [helm/fairlead](../helm/fairlead). A key that is not here is refused, with its name.", "",
            "| value | default | allowed | meaning |", "|---|---|---|---|"]
    for path, value, rule in leaves(yaml.safe_load(text), json.loads((CHART / "values.schema.json").read_text())):
        meaning = comments.get(path, "").replace("|", "\\|")
        rows.append(f"| `{path}` | `{json.dumps(value)}` | {allowed(rule)} | {meaning} |".replace("  |", " |"))
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
