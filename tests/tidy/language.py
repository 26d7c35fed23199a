"""Words that readers have to read twice, and references to headings that do not exist."""
import re

import source_tree

PHRASES = ["anew", "be had", "of ours", "so often in a row", "for ever", "lest", "it is waited for", "is to be",
           "nobody's"]
BANNED = re.compile(r"\b(" + "|".join(phrase.replace(" ", r"\s+") for phrase in PHRASES) + r")\b", re.IGNORECASE)
IGNORED = ("tests/tidy/language.py", "CHANGELOG.md", "tests/fuzz/corpus/")
# A comment's line break belongs to none of its sentences.
BREAK = re.compile(r"\n\s*(?://|#)\s*")

HEADING_REFERENCE = re.compile(r'docs/wire\.md,((?:\s*(?:and\s)?"[^"]+",?)+)')


def check_phrases(tree):
    """Plain English."""
    for path, text in tree.items():
        if path.startswith(IGNORED):
            continue
        for found in BANNED.finditer(BREAK.sub(" ", text)):
            yield path, 1, f'the phrase "{" ".join(found[0].split())}": say it plainly'


def check_headings(tree):
    """What a comment calls a heading of docs/wire.md is one."""
    headings = set(re.findall(r"^#+ (.+)$", tree.get("docs/wire.md", ""), re.M))
    if not headings:
        return
    for path, text in source_tree.cxx(tree):
        for match in HEADING_REFERENCE.finditer(BREAK.sub(" ", text)):
            for heading in re.findall(r'"([^"]+)"', match[1]):
                if heading not in headings:
                    yield path, 1, f'docs/wire.md has no heading "{heading}"'
