"""Reads our own source for what is printed: an expression is harmless if all of it went through
`clean_line` or the like, or is a number, or is a text of our own.

No proof: a function is believed by its name (TRUSTED). But a new `print(f"… {title}")` is found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# They make any text harmless, or return nothing but numbers and words of our own.
CLEANING = {
    "clean_line", "clean_lines", "dumps", "encode", "render", "len", "int", "sum", "max",
    "measure_width", "format_age",
    "terminal_columns", "strftime",
}  # fmt: skip
# They return what their argument was, cut or coloured.
KEEPING = {
    "paint", "cut", "cut_front", "cut_middle", "pad", "list", "sorted", "shorten_home", "partition",
    "split",
}  # fmt: skip
# Functions of our own whose lines have tests with hostile text.
TRUSTED = {
    "wire_name", "session_name", "short_ids", "format_problems",
    "format_problem", "format_outcome", "format_state",
    "lines", "line", "headline", "result_lines", "_remaining_lines", "comparison_lines",
    "dry_run_text", "list_lines", "status_lines", "message_lines", "render_event",
    "help_text", "format_help", "script", "render_text", "render_comment", "_redraw",
    "_left", "_line", "_result_line", "_lines", "_evidence", "_summary", "_many", "_screen",
}  # fmt: skip
# Attributes with numbers, with words of our own (also by our own socket), and with the kernel's.
BELIEVED = {"pid", "code", "seconds", "how", "level", "signals", "version", "strerror"}


def offences(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each printed expression that was not made harmless, after the name of its file."""
    tree = ast.parse(path.read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for call in _own_calls(function, ast.Call):
                for argument in _printed_arguments(call):
                    if not Reader(function).is_harmless(argument):
                        yield path.name, ast.unparse(argument)


def respell(expression: str) -> str:
    """Spell an expression as `offences` does: each Python has its own quotes."""
    return ast.unparse(ast.parse(expression, mode="eval"))


def _own_calls(function: ast.FunctionDef, kind: type[ast.Call]) -> Iterator[ast.Call]:
    """Yield the calls in this function, and not those in a function inside it."""
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, kind):
            yield node
        queue += ast.iter_child_nodes(node)


def _printed_arguments(call: ast.Call) -> list[ast.expr]:
    name = ast.unparse(call.func)
    if name == "print" or name in ("sys.stdout.write", "sys.stderr.write", "KeyboardInterrupt"):
        return call.args
    return []


class Reader:
    """One function, with the values of its names."""

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

    def is_harmless(self, node: ast.expr | None, visited: frozenset[str] = frozenset()) -> bool:
        match node:
            case None | ast.Constant():
                return True
            case ast.JoinedStr(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                return all(self.is_harmless(part, visited) for part in parts)
            case ast.FormattedValue(value=value, format_spec=spec):
                return _is_numeric(spec) or self.is_harmless(value, visited)
            case ast.Starred(value=value) | ast.Subscript(value=value):
                return self.is_harmless(value, visited)
            case ast.BinOp(left=left, right=right):
                return self.is_harmless(left, visited) and self.is_harmless(right, visited)
            case ast.BoolOp(values=values):
                return all(self.is_harmless(value, visited) for value in values)
            case ast.IfExp(body=body, orelse=orelse):
                return self.is_harmless(body, visited) and self.is_harmless(orelse, visited)
            case ast.GeneratorExp(elt=part) | ast.ListComp(elt=part):
                return self.is_harmless(part, visited)
            case ast.Name(id=name):
                return name.isupper() or name.startswith("__") or self._is_harmless_name(name, visited)
            case ast.Attribute(attr=name):
                return name in BELIEVED or name.isupper()
            case ast.Call(func=function, args=arguments):
                return self._is_harmless_call(function, arguments, visited)
        return False

    def _is_harmless_name(self, name: str, visited: frozenset[str]) -> bool:
        values = self._values.get(name, [])
        if name in visited or not values:
            return name in visited
        return all(self.is_harmless(value, visited | {name}) for value in values)

    def _is_harmless_call(
        self, function: ast.expr, arguments: list[ast.expr], visited: frozenset[str]
    ) -> bool:
        name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        if name in CLEANING | TRUSTED:
            return True
        if name == "join":
            return all(self.is_harmless(argument, visited) for argument in arguments)
        if name in ("rstrip", "strip", "ljust", "removeprefix"):
            assert isinstance(function, ast.Attribute)
            return self.is_harmless(function.value, visited)
        return name in KEEPING and self.is_harmless(arguments[0] if arguments else None, visited)


def _is_numeric(spec: ast.expr | None) -> bool:
    """`{seconds:.1f}` is a number, or an error."""
    return spec is not None and ast.unparse(spec).rstrip("'\"")[-1:] in "dfgeE%"
