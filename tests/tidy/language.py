"""Words that readers have to read twice, and references to headings that do not exist."""
import re

import source_tree

PHRASES = ["anew", "be had", "of ours", "so often in a row", "for ever", "lest", "it is waited for", "is to be",
           "nobody's"]
BANNED = re.compile(r"\b(" + "|".join(phrase.replace(" ", r"\s+") for phrase in PHRASES) + r")\b", re.IGNORECASE)
LIST = "tests/tidy/known_phrases.txt"
IGNORED = (LIST, "tests/tidy/language.py", "CHANGELOG.md", "tests/fuzz/corpus/")
# A comment's line break belongs to none of its sentences.
BREAK = re.compile(r"\n\s*(?://|#)\s*")

HEADING_REFERENCE = re.compile(r'docs/wire\.md,((?:\s*(?:and\s)?"[^"]+",?)+)')


def known(tree):
    """{path: number of banned phrases that it may still have}"""
    lines = (line.split("#")[0].split() for line in tree.get(LIST, "").split("\n"))
    return {line[1]: int(line[0]) for line in lines if line}


def check_phrases(tree):
    """Plain English. The list of files with other phrases may only shrink."""
    listed = known(tree)
    for path, text in tree.items():
        if path.startswith(IGNORED):
            continue
        found = list(BANNED.finditer(BREAK.sub(" ", text)))
        allowed = listed.get(path, 0)
        if len(found) > allowed:
            first = " ".join(found[0][0].split())
            yield path, 1, f'{len(found)} phrases like "{first}", {allowed} allowed: say it plainly'
        elif len(found) < allowed:
            yield path, 1, f"{len(found)} phrases are left: say so in {LIST}"


def check_headings(tree):
    """What a comment calls a heading of docs/wire.md is one."""
    headings = set(re.findall(r"^#+ (.+)$", tree.get("docs/wire.md", ""), re.M))
    if not headings:
        return
    for path, text in tree.items():
        if not path.endswith(source_tree.CXX_SUFFIXES):
            continue
        for match in HEADING_REFERENCE.finditer(BREAK.sub(" ", text)):
            for heading in re.findall(r'"([^"]+)"', match[1]):
                if heading not in headings:
                    yield path, 1, f'docs/wire.md has no heading "{heading}"'
