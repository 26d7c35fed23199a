"""Each command that a document tells the reader to type is run by a test, or the document says that none runs it.

A comment of HTML in front of a block names its test, which takes the commands from the page or contains them in full:

    <!-- run by tests/demo/tutorial_test.py: test_two_proxies_by_hand -->

Otherwise the reader sees "not tried" or "tried by hand": in the paragraph in front of the block, in a comment behind the
command, or for a whole page in a sentence above its first section.
"""
import ast
import functools
import re
import sys
from pathlib import Path

from documents import documents

sys.path.insert(1, str(Path(__file__).parents[1]))

import documented  # pylint: disable=wrong-import-position

MARK = re.compile(r"(?<!`)<!--\s*run by (\S+?)(?::\s+(\w+))?\s*-->")
HIDDEN = re.compile(r"<!--.*?-->", re.S)
WORDS = r"(?:not tried|tried by hand)"
# "Not tried." and "(tried by hand)", and sentences about the commands. "It was not tried on hardware" is none.
SAID = re.compile(rf"\({WORDS}\b|(?:^|[.:] ){WORDS}[.:]|\bcommands? (?:was|were) {WORDS}\b", re.I)
SAID_OF_PAGE = re.compile(rf"\bcommands (?:of|on) this page were {WORDS}\b", re.I)


def is_test(node):
    decorators = {name.id for name in node.decorator_list if isinstance(name, ast.Name)}
    return node.name.startswith("test_") or "check" in decorators


@functools.lru_cache(maxsize=None)
def definitions(source):
    """{name: nodes} of functions and of the module's variables."""
    found, module = {}, ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    for node in module.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    found.setdefault(name.id, []).append(node.value)
    return found


def reached(source, name):
    """All nodes of a test, of its preparation, and of what both use in this file."""
    known, waiting, seen = definitions(source), [name, "setUp", "setUpClass"], set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        for definition in known.get(current, ()):
            for node in ast.walk(definition):
                yield node
                if isinstance(node, ast.Name):
                    waiting.append(node.id)
                elif isinstance(node, ast.Attribute):
                    waiting.append(node.attr)


def constants(nodes):
    return [node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "\0" for node in nodes]


@functools.lru_cache(maxsize=None)
def given(source, name):
    """((page, heading, prefix) of each call that takes commands from a page, text of each constant and list of words)"""
    sections, texts = set(), []
    for node in reached(source, name):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            words = constants(node.args)
            if called in ("commands", "groups") and len(words) in (2, 3):
                sections.add((*words, "")[:3])
            texts.append(" ".join(words))
        elif isinstance(node, (ast.List, ast.Tuple)):
            texts.append(" ".join(constants(node.elts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return sections, texts


def holds(text, command):
    return re.search(rf"(?<![\w/.-]){re.escape(command)}(?![\w/.-])", text) is not None


def why_no_test(tree, path, name):
    if path not in tree:
        return f"there is no test {path}"
    if not path.endswith(".py"):
        return "" if not name else f"{path} has no functions"
    if not any(isinstance(node, ast.FunctionDef) and is_test(node) for node in definitions(tree[path]).get(name, ())):
        return f"{path} has no test {name}"
    return ""


def runs(tree, path, name, page, block, command):
    source = tree[path]
    if not path.endswith(".py"):
        return any(holds(line, command.text) for line in source.split("\n") if not line.lstrip().startswith("#"))
    sections, texts = given(source, name)
    taken = any(section[:2] == (page, block.heading) and command.text.startswith(section[2]) for section in sections)
    return taken or any(holds(text, command.text) for text in texts)


def check_block(tree, page, block):
    tests = []
    for path, name in MARK.findall(block.before):
        why = why_no_test(tree, path, name)
        if why:
            yield page, block.line, why
        elif not any(runs(tree, path, name, page, block, command) for command in block.commands):
            yield page, block.line, f"{path}: {name} runs none of these commands"
        else:
            tests.append((path, name))
    if SAID.search(HIDDEN.sub("", block.before)):
        return
    for command in block.commands:
        if re.search(WORDS, command.comment, re.I):
            continue
        if not any(runs(tree, path, name, page, block, command) for path, name in tests):
            yield page, command.line, f'no test runs this, and the page says neither "not tried" nor "tried by hand": {command.text}'


def check_commands(tree):
    """Each command of a document is run by the test that the document names, or marked."""
    for page, text in documents(tree):
        used = 0
        page_said = SAID_OF_PAGE.search(" ".join(text.partition("\n## ")[0].split()))
        for block in documented.blocks(text):
            used += len(MARK.findall(block.before))
            if not page_said or MARK.search(block.before):
                yield from check_block(tree, page, block)
        if used != len(MARK.findall(text)):
            number = text[:MARK.search(text).start()].count("\n") + 1
            yield page, number, "a comment names a test, but does not stand in front of commands"
