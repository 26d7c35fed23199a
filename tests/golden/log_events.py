"""All log events in the sources: logger, event, levels and keys, read from the C++ text."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tidy"))
import source_tree  # noqa: E402  (its folder is known only now)

FOLDERS = ("proxy/", "cni/", "injector/")
DEFINITIONS = ("base/log.h", "base/log.cc", "base/paced_lines.h")
SETTERS = r"\.\s*(?:field|code|milliseconds)\s*\("
STRING = re.compile(r'"((?:\\.|[^"\\])*)"')


def closing(code, at):
    """Index behind the bracket that closes the one before `at`."""
    depth = 1
    while depth and at < len(code):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        at += 1
    return at


def arguments(code, text, begin, end):
    """Texts between commas of the outermost level."""
    parts, depth, start = [], 0, begin
    for at in range(begin, end):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if code[at] == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [" ".join(part.split()) for part in [*parts, text[start:end]]]


def chain_keys(code, text, at):
    """Keys of .field(…).code(…) from here on."""
    keys = []
    while match := re.compile(r"\s*" + SETTERS).match(code, at):
        end = closing(code, match.end())
        keys.append(named(arguments(code, text, match.end(), end - 1)[0], {}))
        at = end
    return keys


def variable_keys(code, text, at, name):
    """Keys that are set on a variable until its block ends."""
    keys, depth, end = [], 1, at
    while depth and end < len(code):
        depth += (code[end] == "{") - (code[end] == "}")
        end += 1
    for match in re.finditer(rf"\b{name}\b(?=\s*{SETTERS})", code[:end]):
        if match.start() >= at:
            keys += chain_keys(code, text, match.end())
    return keys


def named(argument, constants):
    """The strings that an argument can be, or its name in brackets."""
    literals = STRING.findall(argument)
    if literals:
        return "|".join(literals)
    return constants.get(argument, f"<{argument}>")


def levels_of(argument):
    return "|".join(sorted(set(re.findall(r"LogLevel::k(\w+)", argument)))).lower() or f"<{argument}>"


def paced_events_of(text, code, constants):
    """Those of write_paced(pace, level, logger, event, now, fill) and PacedLines::write(level, …)."""
    for match in re.finditer(r"\b(?:write_paced|write)\s*\(", code):
        end = closing(code, match.end())
        values = arguments(code, text, match.end(), end - 1)[-5:]
        fill = re.search(r"LogEvent& (\w+)\)\s*\{", code[match.end():end])
        if len(values) != 5 or not fill:
            continue
        keys = variable_keys(code, text, match.end() + fill.end(), fill[1])
        yield named(values[1], constants), named(values[2], constants), levels_of(values[0]), [*keys, "left_out"]


def events_of(text, constants):
    code = source_tree.code_only(text)
    yield from paced_events_of(text, code, constants)
    for match in re.finditer(r"\bLogEvent(?:\s+(\w+))?\s*\(", code):
        end = closing(code, match.end())
        values = arguments(code, text, match.end(), end - 1)
        if len(values) != 3:
            continue
        keys = variable_keys(code, text, end, match[1]) if match[1] else chain_keys(code, text, end)
        yield named(values[1], constants), named(values[2], constants), levels_of(values[0]), keys


def inventory():
    tree = {path: text for path, text in source_tree.load(str(ROOT)).items()
            if path.startswith(FOLDERS) and path.endswith(source_tree.CXX_SUFFIXES) and not path.endswith(DEFINITIONS)}
    lines = set()
    for text in tree.values():
        constants = dict(re.findall(r'constexpr [\w:* ]*\b(k\w+)(?:\[\])? = "([^"]*)"', text))
        for logger, event, levels, keys in events_of(text, constants):
            lines.add(" ".join([logger, event, levels, *dict.fromkeys(keys)]).rstrip())
    return "".join(f"{line}\n" for line in sorted(lines))
