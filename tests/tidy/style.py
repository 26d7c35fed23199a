"""Sizes, banned words and calls, dead files, dead links."""
import re
from pathlib import PurePosixPath

import function_length
import source_tree

FILE_LINES_MAX = 600
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70

# Spelled in halves, because this file is looked at too.
MARKERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")

# Pattern, where it counts (beginnings of paths), where it is excused, and why it is banned.
BANNED = [
    (r"\bstd::(shared|weak)_ptr\b|\bmake_shared\b", ("proxy/",), ("proxy/base/log.cc",),
     "one worker owns all it touches: unique_ptr or value"),
    (r"\bthrow\b(?!\s*\(\s*\))", ("proxy/", "cni/", "injector/"), (), "errors are values"),
    (r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.:>])sleep\s*\(", ("tests/",), ("tests/bench/",),
     "sleeping synchronises nothing"),
    (r"\b(class|struct)\s+\w*(Manager|Helper|Util|Utils|Context)\b(?!\s*[;*&>])",
     ("proxy/", "cni/", "injector/", "tests/"), (), "say what it is instead"),
    (r"#\s*define\s+(private|protected)\b|\w_for_tests?\b", ("proxy/", "cni/", "injector/", "tests/"),
     (), "tests use public interfaces"),
    (r"\b(strcpy|strcat|sprintf|gets|strtok|atoi|atol)\s*\(", ("proxy/", "cni/", "injector/"), (),
     "no bounds or no errors"),
    (r"\b__SANITIZE_\w+", ("proxy/", "cni/", "injector/", "tests/"), (), "clang 14 lacks it: FAIRLEAD_ADDRESS_SANITIZER, FAIRLEAD_THREAD_SANITIZER"),
    (r"\bassert\s*\(", ("proxy/", "cni/", "injector/"), (), "SMC_ASSERT is on in every build"),
]


def check_file_size(tree):
    """At most 600 lines, and 800 in tests. What belongs together stays together below that."""
    for path, text in tree.items():
        if not path.endswith(source_tree.CXX_SUFFIXES + (".py",)):
            continue
        count = text.count("\n")
        limit = TEST_FILE_LINES_MAX if path.startswith("tests/") else FILE_LINES_MAX
        if count > limit:
            yield path, count, f"{count} lines, {limit} allowed"


def check_function_size(tree):
    """At most 70 lines from heading to closing brace, tests included."""
    for path, text in tree.items():
        if path.endswith(source_tree.CXX_SUFFIXES):
            functions = function_length.cxx_functions(text)
        elif path.endswith(".py"):
            functions = function_length.python_functions(text)
        else:
            continue
        for line, count, heading in functions:
            if count > FUNCTION_LINES_MAX:
                yield path, line, f"{count} lines, {FUNCTION_LINES_MAX} allowed: {heading[:60]}"


def check_markers(tree):
    """Nothing is left for later."""
    for path, text in tree.items():
        for number, line in enumerate(text.split("\n"), 1):
            if match := MARKERS.search(line):
                yield path, number, f"leftover {match.group(0)}"


def check_banned(tree):
    """Calls and names that the house does without."""
    for path, text in source_tree.cxx(tree):
        rules = [rule for rule in BANNED if path.startswith(rule[1]) and not path.startswith(rule[2])]
        for number, line in enumerate(source_tree.code_only(text).split("\n"), 1):
            for pattern, _, _, reason in rules:
                if match := re.search(pattern, line):
                    yield path, number, f"{match.group(0).strip()}: {reason}"


def check_headers(tree):
    """A header opens with a comment, is guarded, and imposes no namespace."""
    for path, text in tree.items():
        if not path.endswith(".h"):
            continue
        if not text.startswith(("//", "/*")):
            yield path, 1, "a header opens with what it is for"
        code = source_tree.code_only(text)
        if "#pragma once" not in code and "#ifndef" not in code:
            yield path, 1, "not guarded by #pragma once"
        for number, line in enumerate(code.split("\n"), 1):
            if re.match(r"using namespace\b", line):
                yield path, number, "using namespace in a header"


def check_text(tree):
    """UTF-8, lines that end in LF, no blanks before the end, one newline at the end."""
    for path, text in tree.items():
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield path, number, "blank or CR at the end of the line"
            if "\ufffd" in line:
                yield path, number, "not UTF-8"
            if "\t" in line and PurePosixPath(path).suffix in source_tree.CXX_SUFFIXES + (".py",):
                yield path, number, "tab"
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            yield path, text.count("\n"), "ends with no newline, or with more than one"


def check_dead_files(tree):
    """Every source is built, every header included, every script called."""
    built = {word.strip(".") for path, text in tree.items() if path.endswith(("CMakeLists.txt", ".py"))
             for word in re.findall(r"[\w.-]+", text)}
    included = {name for _, text in source_tree.cxx(tree) for _, name, _ in source_tree.includes(text)}
    for path in tree:
        name, stem = PurePosixPath(path).name, PurePosixPath(path).stem
        if path.endswith((".cc", ".c")):
            if name not in built and not built_by_pattern(path, tree):
                yield path, 1, "built by no CMakeLists.txt"
        elif path.endswith(".h") and not path.startswith("cmake/"):  # those are precompiled
            # "layer/file.h", or "file.h" beside the file that includes it.
            if not any(path == i or path.endswith("/" + i) for i in included):
                yield path, 1, "included by nobody"
        elif path.endswith((".py", ".sh")):
            called = re.compile(rf"{re.escape(name)}|\b(import|from) ([\w.]+\.|\w+ import )?{stem}\b"
                                rf"|-m unittest [^\n]*\b{stem}\b")
            # Most texts do not have the name at all, and a search for it is much faster than the expression.
            if not any(stem in text and called.search(text) for other, text in tree.items() if other != path) and (
                    not built_by_pattern(path, tree)):
                yield path, 1, "called by nobody"


def is_word_of(word, text):
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def built_by_pattern(path, tree):
    """The CMakeLists.txt beside it says "${variable}_rest.cc", and names what the variable holds."""
    name = PurePosixPath(path).name
    build = tree.get(source_tree.resolved(path, "CMakeLists.txt"), "")
    return any(name.endswith(rest) and is_word_of(name.removesuffix(rest), build)
               for rest in re.findall(r"\$\{\w+\}(\w*\.\w+)", build))


def check_links(tree):
    """A relative link of a document leads to a file."""
    known = tree.keys() | {str(parent) for path in tree for parent in PurePosixPath(path).parents}
    for path, text in tree.items():
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                if re.match(r"[a-z]+:", target):
                    continue
                if source_tree.resolved(path, target) not in known:
                    yield path, number, f"the link {target} leads nowhere"
