"""Who may import whom, where import-linter (`make imports`) does not look: cycles, lazy imports
included, and modules of the standard library that belong to one floor."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentctl

SOURCE = Path(agentctl.__file__).parent
# A program of its own, which has options.
PROGRAMS = {"demo/agent.py"}


def test_no_cycle_however_late_the_import() -> None:
    assert cycle_in(import_graph()) == []


def import_graph() -> dict[str, set[str]]:
    """Which of our modules each one imports, except for the type checker alone."""
    modules = {name_of(path): path for path in SOURCE.rglob("*.py")}
    return {name: ours_in(path, set(modules)) - {name} for name, path in modules.items()}


def name_of(path: Path) -> str:
    parts = ("agentctl", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def ours_in(path: Path, modules: set[str]) -> set[str]:
    """`from agentctl.x import y` imports the module x.y, or x if y is a name in it."""
    found: set[str] = set()
    for node in walk_at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom) and node.module in modules:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & modules
            if inner - modules:
                found.add(node.module)
    return found


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
    assert "agentctl.system.pidfd" in graph["agentctl.truth.look"]  # inside a function
    assert "agentctl.truth.warm" not in graph["agentctl.truth.look"]  # for the type checker


def cycle_in(imported: dict[str, set[str]]) -> list[str]:
    """The modules of one cycle; empty: there is none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        for other in sorted(imported[name]):
            if cycle := visit(other, [*path, name]):
                return cycle
        done.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in sorted(imported))), [])


def test_a_cycle_is_found() -> None:
    imported = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set[str]()}
    assert sorted(cycle_in(imported)) == ["b", "c"]


def test_only_the_command_line_parses_arguments() -> None:
    assert {floor_of(path) for path in users_of("argparse") - PROGRAMS} == {"cli"}


@pytest.mark.parametrize("module", ["subprocess", "socket"])
def test_who_decides_starts_nothing_and_connects_to_nothing(module: str) -> None:
    assert {floor_of(path) for path in users_of(module)} & {"truth", "adapters"} == set()


def floor_of(path: str) -> str:
    return path.partition("/")[0]


def users_of(module: str) -> set[str]:
    sources = (str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py"))
    return {path for path in sources if module in set(imports_of(path))}


def imports_of(path: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((SOURCE / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
