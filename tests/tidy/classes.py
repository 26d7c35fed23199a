"""What one class may hold: public and private functions, data members, and files that define its functions."""
import re
from pathlib import PurePosixPath

import source_tree

FOLDERS = ("proxy/", "cni/", "injector/")
PUBLIC_FUNCTIONS_MAX = 25
PRIVATE_FUNCTIONS_MAX = 30
DATA_MEMBERS_MAX = 20
DEFINING_FILES_MAX = 2

HEAD = re.compile(r"\bclass\s+(\w+)(?:\s+final)?\s*(?::[^{;()]*)?\{")
NOT_MEMBERS = re.compile(r"(using|friend|typedef|static_assert|enum|class|struct|union|static constexpr)\b")


def closing(code, at):
    depth = 1
    while depth and at < len(code):
        depth += (code[at] == "{") - (code[at] == "}")
        at += 1
    return at


def declarations(body):
    """(access, text without the insides of braces) of all declarations of a class."""
    access, text, at = "private", "", 0
    while at < len(body):
        if label := re.compile(r"(public|protected|private)\s*:(?!:)").match(body, at):
            access, text, at = label[1], "", label.end()
        elif body[at] == "{":
            at = closing(body, at + 1)
            # A function's body ends a declaration; an initializer and a nested type are followed by ";" or ",".
            if not re.match(r"\s*[;,]", body[at:at + 200]):
                yield access, text.strip()
                text = ""
        elif body[at] == ";":
            yield access, text.strip()
            text, at = "", at + 1
        else:
            text += body[at]
            at += 1


def without_templates(text):
    """Without what stands between angle brackets."""
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>;{}]*>", "", text)
    return text


def counts(name, body):
    """(public functions, private functions, data members) of a class."""
    functions = {"public": 0, "protected": 0, "private": 0}
    members = 0
    for access, text in declarations(body):
        text = " ".join(without_templates(text).split())
        text = re.sub(r"^template ?", "", text)
        if not text or NOT_MEMBERS.match(text):
            continue
        text = re.sub(r"__attribute__ ?\(\(.*?\)\)+", "", text)
        if "(" in text.split("=")[0] or "operator" in text:
            is_special = "operator" in text or re.search(rf"(^|\W)~?{name} ?\(", text)
            functions[access] += not is_special
        else:
            members += 1 + re.sub(r"\([^()]*\)", "", text).count(",")
    return functions["public"], functions["private"], members


def measure(tree):
    """{(folder, class): (path, line, public functions, private functions, data members, defining files)}"""
    found = {}
    for path, text in tree.items():
        if not path.startswith(FOLDERS) or not path.endswith((".h", ".cc")):
            continue
        code = source_tree.code_only(text)
        for match in HEAD.finditer(code):
            if re.search(r"\benum\s+$", code[:match.start()]):
                continue
            body = code[match.end():closing(code, match.end()) - 1]
            key = str(PurePosixPath(path).parent), match[1]
            found[key] = [path, code.count("\n", 0, match.start()) + 1, *counts(match[1], body), set()]
    for path, text in tree.items():
        if not path.startswith(FOLDERS) or not path.endswith(".cc"):
            continue
        for match in re.finditer(r"^(?:\w[\w:<>,*& ]*?\b)?(\w+)::~?\w+\s*\(", source_tree.code_only(text), re.M):
            key = str(PurePosixPath(path).parent), match[1]
            if key in found:
                found[key][5].add(path)
    return {key: (*rest, len(files)) for key, (*rest, files) in found.items()}


def check_classes(tree):
    """A class holds one thing: limits on its functions, members and files."""
    limits = (("public functions", PUBLIC_FUNCTIONS_MAX), ("private functions", PRIVATE_FUNCTIONS_MAX),
              ("data members", DATA_MEMBERS_MAX), ("files with definitions", DEFINING_FILES_MAX))
    for (_, name), (path, line, *values) in measure(tree).items():
        for value, (what, limit) in zip(values, limits):
            if value > limit:
                yield path, line, f"class {name}: {value} {what}, {limit} allowed"
