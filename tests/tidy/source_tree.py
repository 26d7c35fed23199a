"""The texts that the checks look at, and C++ without what only people read."""
import re
import subprocess
from pathlib import Path, PurePosixPath

CXX_SUFFIXES = (".h", ".cc", ".c")
TEXT_SUFFIXES = CXX_SUFFIXES + (".py", ".sh", ".md", ".txt", ".cmake", ".yaml", ".yml", ".json",
                                ".conflist", ".tpl")
PICTURE_SUFFIXES = (".png", ".svg")  # which links may lead to
TEXT_NAMES = ("Makefile", "Dockerfile", "run")
# Captures and corpora are data; build trees are not ours to judge.
IGNORED = ("build/", "tests/captures/", "tests/fuzz/corpus/")


def load(root):
    """{path below root: text} of every source file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        paths = listed.stdout.decode().split("\0")
    else:  # a source archive without .git
        paths = [str(p.relative_to(root)) for p in Path(root).rglob("*") if p.is_file()]
    tree = {}
    for path in sorted(set(paths)):
        if not path or path.startswith(IGNORED) or "/.git/" in f"/{path}":
            continue
        file = Path(root) / path
        if file.is_file() and (path.endswith(TEXT_SUFFIXES) or file.name in TEXT_NAMES):
            tree[path] = file.read_bytes().decode("utf-8", "replace")
        elif file.is_file() and path.endswith(PICTURE_SUFFIXES):
            tree[path] = ""
    return tree


def cxx(tree, folders="", but=()):
    """(path, text) of C and C++ in the tree, below these folders."""
    for path, text in tree.items():
        if path.endswith(CXX_SUFFIXES) and path.startswith(folders) and not path.startswith(but):
            yield path, text


def resolved(path, target):
    """The path below the root to which a file's relative `target` leads."""
    parts = []
    for part in (*PurePosixPath(path).parent.parts, *PurePosixPath(target).parts):
        parts = parts[:-1] if part == ".." else parts + [part]
    return "/".join(parts) or "."


TOKENS = re.compile(
    r'(?P<raw>R"(?P<mark>[^(\s]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<line>//[^\n]*)'
    r'|(?P<block>/\*.*?\*/)'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<digits>\b\d[\w.]*(?:'\w+)+)"
    r"|(?P<char>'(?:\\.|[^'\\\n])+')",
    re.DOTALL)


def blank(text):
    return "".join(c if c == "\n" else " " for c in text)


def code_only(text):
    """C++ with comments and the insides of literals blanked; lines and columns stay."""
    def replace(match):
        kind = match.lastgroup if match.lastgroup != "mark" else "raw"
        found = match.group(0)
        if kind in ("line", "block"):
            return blank(found)
        if kind == "digits":
            return found.replace("'", "0")
        return found[0] + blank(found[1:-1]) + found[-1]
    # A file name in quotes is not a literal worth blanking.
    lines = text.split("\n")
    kept = {i: line for i, line in enumerate(lines) if re.match(r"\s*#\s*include\b", line)}
    for i in kept:
        lines[i] = ""
    out = TOKENS.sub(replace, "\n".join(lines)).split("\n")
    for i, line in kept.items():
        out[i] = re.sub(r"//.*", "", line)
    return "\n".join(out)


def includes(text):
    """(line, 'layer/file.h', is_foreign) of each include."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
        if match:
            found.append((number, match.group(1) or match.group(2), match.group(2) is not None))
    return found
