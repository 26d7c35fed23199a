"""Places in C++ sources where a small defect can be built in, found in the syntax tree of libclang.

A defect is an expression or a statement with a switch: mutants::is(n) chooses at run time between what stands there and
what a careless change would have made of it. One build then holds all of them.
"""
import dataclasses
import re
import subprocess
from pathlib import Path

from clang import cindex

FLAGS = ["-std=c++20", "-w"]
BINARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+"}
KINDS = {**dict.fromkeys(("<", "<=", ">", ">="), "bound"), **dict.fromkeys(("==", "!="), "equality"),
         **dict.fromkeys(("&&", "||"), "logic"), **dict.fromkeys(("+", "-"), "arithmetic")}
# What aborts on our own bugs, names things for people, or only looks after itself.
NOT_THERE = re.compile(r"\b(?:SMC_ASSERT|static_assert)\s*\(")
NOT_OF = {"invariants", "to_string", "write_text"}
MACRO = re.compile(r"[A-Z_]+\(")
TEXT_MAX = 60


@dataclasses.dataclass(frozen=True)
class Place:
    path: str
    begin: int  # bytes
    end: int
    line: int
    kind: str
    old: str
    new: str

    def key(self):
        """The same for as long as the code there is the same."""
        return f"{self.path}: {self.kind}: {shown(self.old)} -> {shown(self.new)}".rstrip()

    def with_switch(self, number, old):
        """`old` has the switches of the places inside."""
        if self.kind == "omission":  # no statement: an else may follow, and would belong to its if
            return f"(::fairlead::mutants::is({number}) ? void() : void({old}))"
        return f"(::fairlead::mutants::is({number}) ? ({self.new}) : ({old}))"


def shown(text):
    text = " ".join(text.split())
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX - 3] + "..."


def excluded_ranges(text):
    """Of assertions, from the name to the closing bracket."""
    for match in NOT_THERE.finditer(text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield match.start(), at


class Finder:
    """Of the files below some folders of a tree."""

    def __init__(self, root, folders, scratch):
        self.root, self.folders = Path(root), folders
        self.index = cindex.Index.create()
        self.texts, self.excluded, self.found = {}, {}, {}
        self.sources = sorted(path for folder in folders for path in (self.root / folder).rglob("*.cc"))
        self.flags = [*FLAGS, f"-I{self.root / 'proxy'}", f"-I{self.root}", *self.precompiled(Path(scratch))]

    def precompiled(self, scratch):
        """The headers of libraries in one file, since most of the time would go into them."""
        layers = ("base", "wire", "smc", "rdma")
        names = sorted({line for layer in layers for path in (self.root / "proxy" / layer).rglob("*.[ch]*") if "verbs" not in path.parts
                        for line in re.findall(r"^#include <[a-z_/]+>", path.read_text(encoding="utf-8"), re.MULTILINE)})
        header = scratch / "libraries.h"
        header.write_text("\n".join(names) + "\n", encoding="utf-8")
        subprocess.run(["clang++-14", *FLAGS, "-x", "c++-header", header, "-o", f"{header}.pch"], check=True)
        return ["-include-pch", f"{header}.pch"]

    def all(self):
        for source in self.sources:
            unit = self.index.parse(str(source), args=self.flags)
            broken = [item.spelling for item in unit.diagnostics if item.severity >= cindex.Diagnostic.Error]
            if broken:
                raise RuntimeError(f"{source}: {broken[0]}")
            for cursor in unit.cursor.get_children():
                if self.name_of(cursor):
                    self.visit(cursor)
        return sorted(self.found.values(), key=lambda place: (place.path, place.begin))

    def name_of(self, cursor):
        """The path below the root of a cursor's file, if it is in one of the folders."""
        file = cursor.location.file
        if file is None:
            return None
        path = Path(file.name).resolve()
        name = str(path.relative_to(self.root)) if path.is_relative_to(self.root) else ""
        return name if any(name.startswith(f"{folder}/") for folder in self.folders) else None

    def text_of(self, name):
        if name not in self.texts:
            self.texts[name] = (self.root / name).read_bytes()
            self.excluded[name] = list(excluded_ranges(self.texts[name].decode("latin-1")))
        return self.texts[name]

    def visit(self, cursor):
        kind = cursor.kind
        if cursor.spelling in NOT_OF and kind in (cindex.CursorKind.CXX_METHOD, cindex.CursorKind.FUNCTION_DECL):
            return
        if kind == cindex.CursorKind.BINARY_OPERATOR:
            self.add_binary(cursor)
        elif kind == cindex.CursorKind.UNARY_OPERATOR:
            self.add_negation(cursor)
        children = list(cursor.get_children())
        if kind in (cindex.CursorKind.VAR_DECL, cindex.CursorKind.FIELD_DECL):
            children = [child for child in children if not self.is_constant(cursor, child)]
        if kind in (cindex.CursorKind.COMPOUND_STMT, cindex.CursorKind.IF_STMT):
            for child in children[0 if kind == cindex.CursorKind.COMPOUND_STMT else 1:]:
                self.add_omission(child)
        for child in children:
            self.visit(child)

    def is_constant(self, declared, child):
        """A size, an argument of a template or the value of a constant: no mutant is active while these are evaluated."""
        before = self.text_between(declared, declared.extent.start, child.extent.start)
        return re.search(r"\bconstexpr\b", before) or child.extent.start.offset < declared.location.offset or \
            re.match(r"[^=({]*\[", self.text_between(declared, declared.location, child.extent.start))

    def text_between(self, cursor, begin, end):
        name = self.name_of(cursor)
        return self.text_of(name)[begin.offset:end.offset].decode("utf-8", "replace") if name else ""

    def add(self, cursor, kind, new):
        """`new` makes the new text of the old one; None if it cannot."""
        name = self.name_of(cursor)
        begin, end = cursor.extent.start, cursor.extent.end
        if name is None or begin.file is None or end.file is None or begin.file.name != end.file.name:
            return
        text = self.text_of(name)
        old = text[begin.offset:end.offset].decode("utf-8", "replace")
        if not old or any(at < end.offset and begin.offset < until for at, until in self.excluded[name]):
            return
        changed = new(old, begin.offset)
        if changed is not None:
            self.found[name, begin.offset, kind] = Place(name, begin.offset, end.offset, begin.line, kind, old, changed)

    def add_binary(self, cursor):
        children = list(cursor.get_children())
        if len(children) != 2:
            return
        left, right = (child.extent for child in children)

        def new(old, begin):
            between = self.text_of(self.name_of(cursor))[left.end.offset:right.start.offset].decode("utf-8", "replace")
            operator = between.strip()
            if operator not in BINARY:
                return None
            at = left.end.offset - begin
            return old[:at] + between.replace(operator, BINARY[operator]) + old[at + len(between):]

        operator = self.text_of(self.name_of(cursor))[left.end.offset:right.start.offset].decode("utf-8", "replace").strip() \
            if self.name_of(cursor) else ""
        if operator in ("+", "-") and not all(is_number(child) for child in children):
            return
        self.add(cursor, KINDS.get(operator, ""), new)

    def add_negation(self, cursor):
        # `a != b` of classes is a negation of `a == b` to the compiler.
        self.add(cursor, "negation", lambda old, _: f"!{old}" if re.match("!(?!=)", old) else None)

    def add_omission(self, statement):
        """A call or an assignment whose value nobody uses."""
        inner = statement
        while inner.kind == cindex.CursorKind.UNEXPOSED_EXPR and len(list(inner.get_children())) == 1:
            inner = next(inner.get_children())
        is_assignment = inner.kind == cindex.CursorKind.BINARY_OPERATOR and re.match(
            r"[\w.>\[\]()-]+ = ", self.source(inner)) or inner.kind == cindex.CursorKind.COMPOUND_ASSIGNMENT_OPERATOR
        if inner.kind == cindex.CursorKind.CALL_EXPR or is_assignment:
            self.add(inner, "omission", lambda old, begin: None if MACRO.match(old) or not self.ends(inner, begin, old) else "")

    def ends(self, cursor, begin, old):
        """It is a statement of its own, and not in the condition of another one."""
        return self.text_of(self.name_of(cursor))[begin + len(old.encode()):].lstrip().startswith(b";")

    def source(self, cursor):
        return self.text_between(cursor, cursor.extent.start, cursor.extent.end)


def is_number(cursor):
    kind = cursor.type.get_canonical().kind
    return cindex.TypeKind.BOOL.value < kind.value <= cindex.TypeKind.LONGDOUBLE.value


def with_switches(text, items):
    """The text of a file with the defects built in: [(place, number)]. A place may have others inside."""
    items = sorted(items, key=lambda item: (item[0].begin, -item[0].end))

    def render(begin, end):
        parts, at = [], begin
        while items and items[0][0].begin < end:
            place, number = items.pop(0)
            inside = render(place.begin, place.end).decode()
            parts += [text[at:place.begin], place.with_switch(number, inside).encode()]
            at = place.end
        return b"".join([*parts, text[at:end]])

    return render(0, len(text))
