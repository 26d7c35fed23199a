#!/usr/bin/env python3
"""Writes what is made from the table of settings in proxy/base/pod_settings.h: rules of the chart, pages, values of tests.

    scripts/settings.py build/release/proxy/ctl/fairleadctl
"""
import json
import subprocess
import sys
from pathlib import Path

import values_page

ROOT = Path(__file__).parent.parent
CHART_ROWS = "helm/fairlead/files/settings.json"
SCHEMA = "helm/fairlead/values.schema.json"
TRIED = "tests/injection/values.txt"
TRIED_MARK = "# The values from here on are made by scripts/settings.py.\n"


def page_of(fairleadctl, page):
    return subprocess.run([fairleadctl, "docs", page], capture_output=True, text=True, check=True, timeout=60).stdout


def listed(row):
    """The values of a row that has no range, as text."""
    size, sizes = row["min"], []
    while row["doubling"] and size <= row["max"]:
        sizes.append(str(size))
        size *= 2
    return row["choices"] + ["0"] * bool(sizes and row["zero"]) + sizes


def is_zero_alone(row):
    """Whether 0 is allowed, and 1 is not."""
    return bool(row["zero"]) and row["min"] > 1


def lowest(row):
    return 0 if row["zero"] else row["min"]


def limits(row):
    """The numbers that a text for people names."""
    numbers = [int(value) for value in listed(row) if value.isdigit()]
    if row["choices"]:
        return []
    return numbers or [row["min"], row["max"]] + [0] * bool(row["zero"])


def is_good(row, value):
    """Whether `value`, a text, is allowed."""
    if values := listed(row):
        return value in values
    return value == "0" and lowest(row) == 0 or row["min"] <= int(value) <= row["max"]


def check(row):
    """The rule in CEL over `v`, the text of an annotation."""
    if values := listed(row):
        return f"v in [{', '.join(repr(value) for value in values)}]"
    if row["max"] < 10 and not is_zero_alone(row):
        return f"v.matches(r'^[{lowest(row)}-{row['max']}]$')"
    least = max(row["min"], 1)
    low, high = len(str(least)) - 1, len(str(row["max"])) - 1
    digits = "[1-9]" + ("[0-9]?" if (low, high) == (0, 1) else f"[0-9]{{{low},{high}}}")
    words = [f"v.matches(r'^{f'(0|{digits})' if lowest(row) == 0 else digits}$')"]
    if least > 10**low:
        words.append(f"(v == '0' || int(v) >= {least})" if is_zero_alone(row) else f"int(v) >= {least}")
    return " && ".join(words + [f"int(v) <= {row['max']}"])


def rule(row):
    """The rule of the chart's schema for a value."""
    if values := listed(row):
        numbers = [int(value) if value.isdigit() else value for value in values]
        kinds = {type(value) for value in numbers}
        return ({"type": "integer" if int in kinds else "string"} if len(kinds) == 1 else {}) | {"enum": numbers}
    limits = {"minimum": row["min"], "maximum": row["max"]}
    if is_zero_alone(row):
        return {"type": "integer", "anyOf": [{"const": 0}, limits]}
    return {"type": "integer"} | limits | {"minimum": lowest(row)}


def chart_rows(rows):
    """What the templates read. `check` is "" where no annotation has it."""
    made = [{"annotation": row["annotation"], "value": row["value"], "variable": row["variable"], "default": row["default"],
             "check": check(row) if row["annotation"] else "", "allowed": row["allowed"]} for row in rows]
    return "[\n" + ",\n".join(json.dumps(row) for row in made) + "\n]\n"


def schema(rows, before):
    """The schema with the rules of the rows; new ones behind the others of their object."""
    whole = json.loads(before)
    for row in rows:
        *path, name = f"proxy.{row['value']}".split(".")
        if row["value"]:
            place = whole
            for step in path:
                place = place["properties"][step]
            place["properties"][name] = rule(row)
    return json.dumps(whole, indent=1) + "\n"


def tried(row):
    """(verdict, value) for both sides of each limit."""
    good, bad = listed(row), ["", "none"]
    if row["choices"]:
        bad += [good[0].upper(), f"{good[0]} ", f"{good[0]}x"]
    elif row["doubling"]:
        bad += [str(row["min"] + 1), str(2 * row["max"]), f"{row['max']}B"]
    else:
        inside = {10**digits for digits in range(1, 6)} | {2, 5, 106}
        good = sorted({lowest(row), row["min"], row["max"]} | {value for value in inside if row["min"] < value < row["max"]})
        bad += [row["min"] - 1] if row["min"] != 1 or lowest(row) else []
        bad += [-1, row["max"] + 1, f"0{row['max']}", "00", f"+{row['max']}", f"{row['max']} ", f"{row['max']}ms", "0x1", "1e1", f"1{'0' * 21}{row['max']}"]
    return [("good", str(value)) for value in good] + [("bad", str(value)) for value in dict.fromkeys(bad)]


def tried_values(rows, before):
    by_hand = before.partition(TRIED_MARK)[0]
    return by_hand + TRIED_MARK + "".join(f"{verdict} {row['annotation']} {json.dumps(value)}\n"
                                          for row in rows if row["annotation"] for verdict, value in tried(row))


def made_files(fairleadctl):
    """(path, text) of each file, as it has to be."""
    rows = json.loads(page_of(fairleadctl, "settings"))
    yield CHART_ROWS, chart_rows(rows)
    yield SCHEMA, schema(rows, (ROOT / SCHEMA).read_text())
    yield TRIED, tried_values(rows, (ROOT / TRIED).read_text())
    yield "docs/annotations.md", page_of(fairleadctl, "annotations")


if __name__ == "__main__":
    for name, text in made_files(sys.argv[1]):
        (ROOT / name).write_text(text)
    (ROOT / "docs/values.md").write_text(values_page.page())
