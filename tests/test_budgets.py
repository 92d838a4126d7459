"""What the hot verbs may import. An import costs time at every call: this test fails long before a clock
would show it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.demo import DemoStage
from tests.namespaces import pid_namespace
from tests.running import environ_of
from tests.waiting import until

PROGRAM = """
import sys
sys.argv = ["agentctl", *sys.argv[1:]]
if len(sys.argv) > 1:
    from agentctl.__main__ import run_command
    run_command()
print("\\n".join(sys.modules), file=sys.stderr)
"""
# What this Python loads for the modules that we import: which others come along differs from version to
# version and is none of our doing.
WITHOUT_US = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print("\\n".join(sys.modules), file=sys.stderr)
"""
# The standard library's modules that we import ourselves.
AT_ONCE = ("__future__", "errno", "gc", "io")
MAY_IMPORT = {
    "--version": AT_ONCE,
    "--help": AT_ONCE,
    "list": (*AT_ONCE, "_collections", "_functools", "_json", "encodings.ascii", "itertools"),
}
# Modules of our own, with a few to spare. Raise one only together with what `make bench` says of it.
# Ten of those of `list` are the built-in agents' constants: 0.8 ms of 35. Four are there so that it does
# without `typing`, `collections`, `json`, `re` and `argparse`: 10 ms.
BUDGETS = {"--version": 3, "--help": 5, "list": 51}
PACKAGES = ("claude_code", "codex", "demo", "opencode", "pi")  # of the adapters
TOO_DEAR = {
    "argparse",
    "asyncio",
    "dataclasses",
    "datetime",
    "importlib.metadata",
    "inspect",
    "logging",
    "pathlib",
    "shutil",
    "subprocess",
    "threading",
    "tomllib",
}


def list_modules(home: Path, program: str, *words: str) -> set[str]:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    # Alone: a neighbour's rehearsal, or a process that is just ending, would be looked into.
    command = [*pid_namespace(), sys.executable, "-I", "-c", program, *words]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    modules = set(ran.stderr.split())
    assert "sys" in modules, "the program ended before it printed its modules"
    return modules


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "agentctl"}


@pytest.mark.parametrize(("verb", "budget"), BUDGETS.items())
def test_a_hot_verb_needs_few_of_our_modules(tmp_path: Path, verb: str, budget: int) -> None:
    modules = ours(list_modules(tmp_path, PROGRAM, verb))
    assert len(modules) <= budget, sorted(modules)


@pytest.mark.parametrize("verb", BUDGETS)
def test_a_hot_verb_imports_little_else(tmp_path: Path, verb: str) -> None:
    modules = list_modules(tmp_path, PROGRAM, verb)
    assert modules - ours(modules) - list_modules(tmp_path, WITHOUT_US, *MAY_IMPORT[verb]) == set()


@pytest.mark.parametrize("verb", BUDGETS)
def test_a_hot_verb_imports_nothing_dear(tmp_path: Path, verb: str) -> None:
    assert not list_modules(tmp_path, PROGRAM, verb) & TOO_DEAR


def test_no_adapter_is_imported_for_an_agent_that_does_not_run(tmp_path: Path) -> None:
    adapters = {
        name for name in list_modules(tmp_path, PROGRAM, "list") if name.startswith("agentctl.adapters.")
    }
    agents = {f"agentctl.adapters.{name}" for name in PACKAGES}
    modules = {f"{name}.agent" for name in agents}
    assert adapters - agents == {"agentctl.adapters.registry", "agentctl.adapters.roots", *modules}
    assert "sqlite3" not in list_modules(tmp_path, PROGRAM, "list")


# Our modules beyond those of `list`, for a verb on a live session.
MORE_THAN_LIST = {"status": 4, "why": 4, "peek": 5, "logs": 5, "stop --dry-run": 15}


@pytest.mark.parametrize(("verb", "more"), MORE_THAN_LIST.items())
def test_a_verb_on_a_live_session_imports_little_more_than_list(
    stage: DemoStage, verb: str, more: int
) -> None:
    puppet = stage.start(prompt="a task")
    puppet.do("work")
    by_list = ours(list_modules_beside(stage, "list"))
    by_verb = list_modules_beside(stage, *verb.split(), str(puppet.session_id))
    assert len(ours(by_verb) - by_list) <= more, sorted(ours(by_verb) - by_list)
    assert not by_verb & (TOO_DEAR - {"threading"})
    assert "agentctl.state.cache" not in by_verb  # no history was read


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "demo"])
def test_a_stop_plan_needs_no_parser(tmp_path: Path, name: str) -> None:
    program = f"import sys, agentctl.adapters.{name}.start; print(*sys.modules, file=sys.stderr)"
    assert not list_modules(tmp_path, program) & (TOO_DEAR | {"json", "re", "typing"})


def list_modules_beside(stage: DemoStage, *words: str) -> set[str]:
    """Return the modules that a call imports. For a rehearsal of a neighbour it imports more: call again
    until there is none."""
    modules: list[set[str]] = []

    def is_alone() -> bool:
        modules.append(call_beside(stage, *words))
        return "agentctl.truth.rehearsals" not in modules[-1]

    until(is_alone, "no rehearsal runs beside the call")
    return modules[-1]


def call_beside(stage: DemoStage, *words: str) -> set[str]:
    command = [sys.executable, "-I", "-c", PROGRAM, *words]
    ran = subprocess.run(
        command, env=environ_of(stage), capture_output=True, text=True, check=True, timeout=60
    )
    modules = set(ran.stderr.split())
    assert "sys" in modules, "the program ended before it printed its modules"
    return modules
