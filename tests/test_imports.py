"""Which module may import which, where import-linter (`make imports`) does not look: cycles, lazy
imports included, and modules of the standard library that belong to one layer."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import agentctl

SOURCE = Path(agentctl.__file__).parent
# A program of its own, which has options.
PROGRAMS = {"demo/agent.py"}
WRITERS = {"print", "sys.stdout.write", "sys.stderr.write"}
# Programs of their own: they run in a process that a user or agentctl started for them alone.
PRINTING = {
    "__main__.py", "daemon/__main__.py", "demo/agent.py", "rehearsal/__main__.py",
    "rehearsal/sandbox.py",
    "testing/player.py",  # the puppet's process
    "demo/show.py",  # a play for the terminal, with its own text
}  # fmt: skip


def test_no_cycle_however_late_the_import() -> None:
    assert cycle_in(import_graph()) == []


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def import_graph() -> dict[str, set[str]]:
    """Which of our modules each one imports, except for the type checker alone."""
    modules = {name_of(path): path for path in SOURCE.rglob("*.py")}
    return {name: list_imports_of_ours(path, set(modules)) - {name} for name, path in modules.items()}


def name_of(path: Path) -> str:
    parts = ("agentctl", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def list_imports_of_ours(path: Path, modules: set[str]) -> set[str]:
    """`from agentctl.x import y` imports the module x.y, or x if y is a name in it."""
    names: set[str] = set()
    for node in walk_at_run_time(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= inner & modules
            if inner - modules:
                names.add(node.module)
    return names


def walk_at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node, but for the body of `if TYPE_CHECKING:`."""
    yield node
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        node = ast.Module(node.orelse, [])
    for child in ast.iter_child_nodes(node):
        yield from walk_at_run_time(child)


def test_the_graph_has_imports_at_the_top_and_inside_functions_and_none_for_types() -> None:
    graph = import_graph()
    assert "agentctl.errors" in graph["agentctl.system.files"]
    assert "agentctl.system.sqlite" in graph["agentctl.truth.look"]  # inside a function
    assert "agentctl.truth.memory" not in graph["agentctl.truth.look"]  # for the type checker


def cycle_in(imported: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle; empty: there is none."""
    visited: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in visited:
            return []
        for other in sorted(imported[name]):
            if cycle := visit(other, [*path, name]):
                return cycle
        visited.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in sorted(imported))), [])


def test_a_cycle_is_found() -> None:
    imported = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set[str]()}
    assert sorted(cycle_in(imported)) == ["b", "c"]


def test_only_the_command_line_parses_arguments() -> None:
    assert {layer_of(path) for path in users_of("argparse") - PROGRAMS} == {"cli"}


@pytest.mark.parametrize("module", ["subprocess", "socket"])
def test_truth_and_adapters_start_nothing_and_connect_to_nothing(module: str) -> None:
    assert {layer_of(path) for path in users_of(module)} & {"truth", "adapters"} == set()


def test_no_module_imports_a_verb() -> None:
    """The verb runner loads a verb by its name; what several need is no verb's."""
    verbs = {
        name: {other for other in others if other.startswith("agentctl.cli.verbs.")}
        for name, others in import_graph().items()
    }
    assert {name: others for name, others in verbs.items() if others} == {}


def test_only_front_ends_and_programs_print() -> None:
    """A capability returns values; `view` returns text."""
    assert {path for path in printing_files() if layer_of(path) != "cli"} == PRINTING


def printing_files() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        calls = (n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call))
        if any(ast.unparse(call.func) in WRITERS for call in calls):
            yield str(path.relative_to(SOURCE))


def layer_of(path: str) -> str:
    return path.partition("/")[0]


def users_of(module: str) -> set[str]:
    sources = (str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
    return {path for path in sources if module in set(imports_of(path))}


def imports_of(path: str) -> Iterator[str]:
    for node in ast.walk(tree_of(SOURCE / path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
