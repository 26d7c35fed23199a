"""Finds functions and their length in C++, by braces, and in Python, by its own parser."""
import ast
import re

import source_tree

LABEL = re.compile(r"\s*(public|protected|private)\s*:")
# Between the parameters of a constructor and its body; a name before the brace is a member's.
MEMBER_INITIALIZER = re.compile(r"\)\s*(noexcept\s*)?:(?!:).*[\w>]\s*$", re.DOTALL)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def cxx_functions(text):
    """(first line, number of lines, heading) of every function body outside of functions.

    A brace opens a scope (namespace, class, enumeration), a function, or an initializer: told apart by
    what stands between it and the last ; { or }. What is inside of a function belongs to it.
    """
    code = source_tree.code_only(text)
    # Macros may hold unbalanced braces, and are no functions.
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: source_tree.blank(m.group(0)), code,
                  flags=re.MULTILINE)
    found = []
    stack = []  # kind of each open brace
    heading_begin = 0
    function_line = 0
    parentheses = 0
    for at, char in enumerate(code):
        if char == "(":
            parentheses += 1
        elif char == ")":
            parentheses = max(0, parentheses - 1)
        elif char == "{":
            while label := LABEL.match(code, heading_begin, at):
                heading_begin = label.end()
            kind = kind_of(code[heading_begin:at], "function" in stack or parentheses > 0)
            if kind == "function":
                while code[heading_begin].isspace():
                    heading_begin += 1
                function_line = code.count("\n", 0, heading_begin) + 1
            stack.append(kind)
            if kind != "inner":
                heading_begin = at + 1
        elif char == "}" and stack:
            kind = stack.pop()
            if kind == "function":
                last_line = code.count("\n", 0, at) + 1
                found.append((function_line, last_line - function_line + 1,
                              " ".join(heading_of(code, function_line).split())))
            if kind != "inner":
                heading_begin = at + 1
        elif char == ";" and "function" not in stack and parentheses == 0:
            heading_begin = at + 1
    return found


def kind_of(heading, is_inside):
    if is_inside or MEMBER_INITIALIZER.search(heading):
        return "inner"
    if SCOPE.search(heading.split("(")[0]) and not re.search(r"\)\s*\w*\s*$", heading):
        return "scope"
    if "(" in heading and not re.search(r"[=,(]\s*$", heading):
        return "function"
    return "inner"


def heading_of(code, line):
    return code.split("\n")[line - 1].split("{")[0]


def python_functions(text):
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append((node.lineno, node.end_lineno - node.lineno + 1, f"def {node.name}"))
    return found
