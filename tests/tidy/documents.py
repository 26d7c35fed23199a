"""Names that a document gives exist: metrics, annotations, values, keys, events, options, targets, tests and headings."""
import re
from pathlib import PurePosixPath

from source_tree import resolved

HISTORY = ("CHANGELOG.md", "docs/adr/")  # which names what is gone
CODE = ("proxy/", "cni/", "injector/")
# Labels and annotations that no pod's author writes.
OTHER_KEYS = {"fairlead.io/status", "fairlead.io/ready", "fairlead.io/pnet", "fairlead.io/pool"}
# Another program may follow on the same line, behind a pipe.
PROGRAM = re.compile(r"\b(fairlead-(?:proxy|node|injector|cni)|fairleadctl)\b([^`|\n>;]*)")


def documents(tree):
    for path, text in tree.items():
        if path.endswith(".md") and not path.startswith(HISTORY):
            yield path, text


def first_column(text, pattern):
    return set(re.findall(rf"^\| `({pattern})` \|", text, re.M))


def slug(heading):
    """The anchor of a heading, as the web pages of repositories make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    outside = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", outside, re.M)}


def check_anchors(tree):
    """A link to a heading leads to one."""
    known = {path: anchors(text) for path, text in tree.items() if path.endswith(".md")}
    for path, text in known.items():
        for number, line in enumerate(tree[path].split("\n"), 1):
            for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", line):
                page = resolved(path, target) if target else path
                if page in known and anchor not in known[page]:
                    yield path, number, f"{page} has no heading #{anchor}"


def python_tests(tree):
    return {f"{PurePosixPath(path).stem.removesuffix('_test')}.{name}" for path, text in tree.items()
            if path.endswith(".py") for name in re.findall(r"def (test_\w+)", text)}


def cpp_tests(tree):
    """(suite, case)"""
    return [case for path, text in tree.items() if path.startswith("tests/") and path.endswith(".cc")
            for case in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", text, re.M)]


def check_coverage(tree):
    """Each row of the page's coverage table is full and names tests that there are."""
    path = "docs/wire.md"
    known = python_tests(tree) | {".".join(case) for case in cpp_tests(tree)}
    inside, columns = False, 0
    for number, line in enumerate(tree.get(path, "").split("\n"), 1):
        if line.startswith("## "):
            inside, columns = line == "## Coverage", 0
        if not inside or not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        columns = columns or len(cells)
        if len(cells) != columns or "" in cells:
            yield path, number, "a field of the coverage table is empty"
        if set(cells[-1]) <= set("- ") or cells[-1] == "tests":
            continue
        names = re.findall(r"`([\w.]+)`", cells[-1])
        if not names:
            yield path, number, "a row of the coverage table names no test"
        yield from ((path, number, f"there is no test {name}") for name in names if name not in known)


def families(tree):
    """(what, pattern of a name in a document, names that exist)"""
    def page(name):
        return tree.get(f"docs/{name}.md", "")
    code = "\n".join(text for path, text in tree.items() if path.startswith(CODE))
    values = first_column(page("values"), r"[\w.]+")
    groups = {name.rsplit(".", count)[0] for name in values for count in range(1, name.count(".") + 1)}
    metrics = first_column(page("metrics"), r"\w+")
    series = {f"{name}_{part}" for name in metrics for part in ("bucket", "sum", "count")}
    programs = {name for path, text in tree.items() if path.endswith(".bpf.c")
                for name in re.findall(r"^SEC\([^)]*\)\nint (\w+)\(", text, re.M)}
    keys = set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', tree.get("proxy/config/keys.cc", "")))
    tests, cases = python_tests(tree), cpp_tests(tree)
    yield "test", r"\bTEST\((\w+, \w+)\)", {", ".join(case) for case in cases}
    yield "suite of tests", r"gtest_filter='?(\w+)\.", {suite for suite, _ in cases}
    yield "metric", r"\bfairlead_[a-z0-9_]*[a-z0-9]\b(?!_)", metrics | series | programs
    yield "annotation", r"\bfairlead\.io/[a-z-]*[a-z]", first_column(page("annotations"), r"[\w./-]+") | OTHER_KEYS
    if values:
        roots = "|".join(sorted({name.split(".")[0] for name in values if "." in name}))
        yield "value of the chart", rf"(?<=`)(?:{roots})\.(?!(?:cc|h|py)\b)[A-Za-z.]*[A-Za-z]\b", values | groups
    if keys:
        roots = "|".join(sorted({name.split(".")[0] for name in keys} - {"memory", "tcp"}))
        yield "key", rf"(?<=`)(?:{roots})\.[a-z_.]*[a-z]\b", keys
    yield "event", r"\bevent=([a-z_]+)", set(re.findall(r'"([a-z_]+)"', code))
    yield "target", r"(?:^    |`)make ([a-z][a-z0-9-]*)", set(re.findall(r"^([a-z0-9-]+):", tree.get("Makefile", ""), re.M))
    yield "test", r"\b[a-z_]+\.test_[a-z]\w+\b(?=`)", tests | keys


def check_names(tree):
    """A document names only what there is."""
    for what, pattern, known in families(tree):
        for path, text in documents(tree):
            for number, line in enumerate(text.split("\n"), 1):
                for name in re.findall(pattern, line):
                    if name not in known:
                        yield path, number, f"there is no {what} {name}"


def check_options(tree):
    """An option behind the name of a program is one of that program's."""
    help_of = {path.rsplit("help_", 1)[1].removesuffix(".txt"): text for path, text in tree.items()
               if path.startswith("tests/golden/help_")}
    for path, text in documents(tree):
        for number, line in enumerate(text.split("\n"), 1):
            for program, rest in PROGRAM.findall(line):
                known = set(re.findall(r"--[a-z][a-z-]*", help_of.get(program, "")))
                for option in re.findall(r"(?<= )--[a-z][a-z-]*", rest):
                    if option not in known:
                        yield path, number, f"{program} has no option {option}"
