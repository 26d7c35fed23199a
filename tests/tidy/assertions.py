"""Every SMC_ASSERT has a row in docs/assertions.md that says why nobody outside can reach it."""
import re

from source_tree import code_only, cxx

TABLE = "docs/assertions.md"
FOLDERS = ("proxy/", "cni/", "injector/")
DEFINITION = "proxy/base/assert.h"
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$")


def conditions(text):
    """(line, first argument) of every assertion."""
    code = code_only(text)
    for match in re.finditer(r"\bSMC_ASSERT\(", code):
        depth, end = 1, match.end()
        while end < len(code) and depth and not (depth == 1 and code[end] == ","):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[end], 0)
            end += 1
        written = code[match.end():end] if depth else code[match.end():end - 1]
        yield code.count("\n", 0, match.start()) + 1, " ".join(written.split())


def check_assertions(tree):
    if TABLE not in tree:
        return
    rows = {}
    for number, line in enumerate(tree[TABLE].split("\n"), 1):
        if match := ROW.match(line):
            rows[match[1], match[2].replace("\\|", "|")] = number
    found = set()
    for path, text in cxx(tree, FOLDERS, DEFINITION):
        for line, condition in conditions(text):
            found.add((path, condition))
            if (path, condition) not in rows:
                yield path, line, f"{TABLE} does not say why nobody can reach this assertion: {condition}"
    for (path, condition), number in rows.items():
        if (path, condition) not in found:
            yield TABLE, number, f"{path} has no such assertion any more: {condition}"
