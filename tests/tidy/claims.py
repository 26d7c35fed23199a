"""What a document says is "tested by" something names tests that there are."""
import re
from pathlib import PurePosixPath

from documents import cpp_tests, documents

COLUMN = "tested by"


def programs(tree):
    """Programs of gtest by name: the names of their suites."""
    suites = {}
    for path, text in tree.items():
        if not path.startswith("tests/") or not path.endswith("CMakeLists.txt"):
            continue
        folder = str(PurePosixPath(path).parent)
        for name, words in re.findall(r"\bfairlead_test\((\w+)([^)]*)\)", text):
            sources = {f"{folder}/{word}" for word in re.findall(r"[\w./-]+\.cc", words)}
            known = {suite for suite, _ in cpp_tests({source: tree[source] for source in sources if source in tree})}
            # Parts of a program may stand in a header.
            suites[name] = known | {suite for source in sources if source in tree
                                    for suite in re.findall(r"\bINSTANTIATE_TEST_SUITE_P\(\w+,\s*(\w+)", tree[source])}
    return suites


def registered(tree):
    """Names of ctest. One with a variable stands for each word of its file in place of it."""
    names = set()
    for path, text in tree.items():
        if not path.startswith("tests/") or not path.endswith("CMakeLists.txt"):
            continue
        words = set(re.findall(r"\w+", text))
        for name in re.findall(r"\badd_test\(NAME\s+([\w${}]+)", text):
            head, variable, rest = re.fullmatch(r"(\w*)(\$\{\w+\})?(\w*)", name).groups()
            names |= {head + word + rest for word in words} if variable else {head}
    return names


def scenarios(tree):
    """Names of the lab's scenarios."""
    return {name for path, text in tree.items() if path.startswith("tests/lab/") and path.endswith(".py")
            for name in re.findall(r"^@scenario\b[^\n]*\ndef (\w+)", text, re.M)}


def known_names(tree, suites):
    files = {path for path in tree if path.startswith("tests/") and path.endswith((".py", ".cc"))}
    targets = {f"make {name}" for name in re.findall(r"^([a-z0-9-]+):", tree.get("Makefile", ""), re.M)}
    fuzzers = {PurePosixPath(path).stem for path in files if path.startswith("tests/fuzz/") and path.endswith("_fuzzer.cc")}
    return (files | {PurePosixPath(path).name for path in files if re.search(r"_test\.\w+$", path)} | registered(tree)
            | scenarios(tree) | targets | fuzzers | set(suites) | {suite for known in suites.values() for suite in known})


def cells(text):
    """(line, cell) of each table's column of that heading."""
    column = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("|"):
            column = None
            continue
        row = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if COLUMN in row:
            column = row.index(COLUMN)
        elif column is not None and not set(line) <= set("|-: "):
            yield number, row[column] if column < len(row) else ""


def check_claims(tree):
    """Each row names a test that there is; suites in brackets behind a program of gtest are that program's. Elsewhere,
    what looks like the name of a test is one."""
    suites = programs(tree)
    known = known_names(tree, suites)
    for path, text in documents(tree):
        rows = dict(cells(text))
        for number, cell in rows.items():
            names = re.findall(r"`([^`]+)`", cell)
            if not names:
                yield path, number, "the row names no test"
            yield from ((path, number, f"there is no test {name}") for name in names if name not in known)
            for program, inside in re.findall(r"`(\w+)` \(([^)]*)\)", cell):
                for suite in re.findall(r"`(\w+)`", inside):
                    if program in suites and suite in known and suite not in suites[program]:
                        yield path, number, f"{program} has no suite {suite}"
        for number, line in enumerate(text.split("\n"), 1):
            for name, suite in re.findall(r"`([\w/]+_test(?:\.(?:py|cc))?)`(?:, `([A-Z]\w+)`)?", line):
                if number not in rows:
                    yield from ((path, number, f"there is no test {one}") for one in (name, suite) if one and one not in known)
