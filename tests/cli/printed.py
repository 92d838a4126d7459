"""Reads our own source for what is printed: an expression is harmless if all of it went through
`one_line` or the like, or is a number, or is a text of our own.

No proof: a function is believed by its name (TRUSTED). But a new `print(f"… {title}")` is found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# They make any text harmless, or return nothing but numbers and words of our own.
CLEANING = {
    "one_line", "many_lines", "dumps", "render", "len", "int", "sum", "max", "width", "age", "columns",
    "strftime",
}  # fmt: skip
# They return what their argument was, cut or coloured.
KEEPING = {"paint", "cut", "cut_front", "cut_middle", "pad", "list", "sorted", "tilde", "partition"}
# Functions of our own whose lines have tests with hostile text.
TRUSTED = {
    "name", "short_ids", "how_it_ended", "footer", "told", "lines", "line", "headline", "help_text",
    "format_help", "script", "_left", "_line", "_lines", "_evidence", "_summary", "_many", "_screen",
    "text", "comment",
}  # fmt: skip
# Attributes with numbers, with words of our own (also by our own socket), and with the kernel's.
BELIEVED = {"pid", "code", "seconds", "how", "level", "signals", "version", "strerror"}


def offences(path: Path) -> Iterator[tuple[str, str]]:
    """Each print of something that nobody has made harmless: the file's name, and what it is."""
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for call in _own(function, ast.Call):
                for argument in _printed(call):
                    if not Reader(function).harmless(argument):
                        yield path.name, ast.unparse(argument)


def respell(expression: str) -> str:
    """As `offences` spells it: each Python has its own quotes."""
    return ast.unparse(ast.parse(expression, mode="eval"))


def _own(function: ast.FunctionDef, kind: type[ast.Call]) -> Iterator[ast.Call]:
    """In this function, and not in one inside it."""
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, kind):
            yield node
        queue += ast.iter_child_nodes(node)


def _printed(call: ast.Call) -> list[ast.expr]:
    name = ast.unparse(call.func)
    if name == "print" or name in ("sys.stdout.write", "sys.stderr.write", "KeyboardInterrupt"):
        return call.args
    return []


class Reader:
    """One function, read for what its names hold."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self._values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._note(target, node.value)
            elif isinstance(node, ast.NamedExpr | ast.AugAssign):
                self._note(node.target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                self._note(node.target, node.iter)

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, part in zip(target.elts, value.elts, strict=False):
                self._note(each, part)
        elif isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            for each in target.elts:
                self._note(each, value)

    def harmless(self, node: ast.expr | None, seen: frozenset[str] = frozenset()) -> bool:
        match node:
            case None | ast.Constant():
                return True
            case ast.JoinedStr(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                return all(self.harmless(part, seen) for part in parts)
            case ast.FormattedValue(value=value, format_spec=spec):
                return _numeric(spec) or self.harmless(value, seen)
            case ast.Starred(value=value) | ast.Subscript(value=value):
                return self.harmless(value, seen)
            case ast.BinOp(left=left, right=right):
                return self.harmless(left, seen) and self.harmless(right, seen)
            case ast.BoolOp(values=values):
                return all(self.harmless(value, seen) for value in values)
            case ast.IfExp(body=body, orelse=orelse):
                return self.harmless(body, seen) and self.harmless(orelse, seen)
            case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part):
                return self.harmless(part, seen)
            case ast.Name(id=name):
                return name.isupper() or name.startswith("__") or self._held(name, seen)
            case ast.Attribute(attr=name):
                return name in BELIEVED or name.isupper()
            case ast.Call(func=function, args=arguments):
                return self._called(function, arguments, seen)
        return False

    def _held(self, name: str, seen: frozenset[str]) -> bool:
        values = self._values.get(name, [])
        if name in seen or not values:
            return name in seen
        return all(self.harmless(value, seen | {name}) for value in values)

    def _called(self, function: ast.expr, arguments: list[ast.expr], seen: frozenset[str]) -> bool:
        name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        if name in CLEANING | TRUSTED:
            return True
        if name == "join":
            return all(self.harmless(argument, seen) for argument in arguments)
        if name in ("rstrip", "strip", "ljust", "removeprefix"):
            assert isinstance(function, ast.Attribute)
            return self.harmless(function.value, seen)
        return name in KEEPING and self.harmless(arguments[0] if arguments else None, seen)


def _numeric(spec: ast.expr | None) -> bool:
    """`{seconds:.1f}` is a number, or an error."""
    return spec is not None and ast.unparse(spec).rstrip("'\"")[-1:] in "dfgeE%"
