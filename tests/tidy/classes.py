"""What one class may hold: private functions and data members. A struct that has public mutable members and functions
is a class, too."""
import re

import source_tree

FOLDERS = ("proxy/", "cni/", "injector/")
PRIVATE_FUNCTIONS_MAX = 30
DATA_MEMBERS_MAX = 20

HEAD = re.compile(r"\b(class|struct)\s+(\w+)(?:\s+final)?\s*(?::[^{;()]*)?\{")
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
    """(public functions, private functions, data members, public ones of these that can change) of a class."""
    functions = {"public": 0, "protected": 0, "private": 0}
    members = mutable = 0
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
            count = 1 + re.sub(r"\([^()]*\)", "", text).count(",")
            members += count
            mutable += count if access == "public" and not text.startswith("const ") else 0
    return functions["public"], functions["private"], members, mutable


def measure(tree):
    """(class, path, line, private functions, data members) of each."""
    for path, text in source_tree.cxx(tree, FOLDERS):
        code = source_tree.code_only(text)
        for match in HEAD.finditer(code):
            if re.search(r"\benum\s+$", code[:match.start()]):
                continue
            is_struct = match[1] == "struct"
            body = code[match.end():closing(code, match.end()) - 1]
            public, private, members, mutable = counts(match[2], "public:" + body if is_struct else body)
            if is_struct and not (mutable and public):
                continue
            yield match[2], path, code.count("\n", 0, match.start()) + 1, private, members


def check_classes(tree):
    """A class holds one thing: limits on its private functions and members."""
    limits = ("private functions", PRIVATE_FUNCTIONS_MAX), ("data members", DATA_MEMBERS_MAX)
    for name, path, line, *values in measure(tree):
        for value, (what, limit) in zip(values, limits):
            if value > limit:
                yield path, line, f"class {name}: {value} {what}, {limit} allowed"
