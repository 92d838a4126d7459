"""What the hot verbs may import. An import is paid at every call: this fails long before a clock
would tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.namespaces import pid_namespace

PROGRAM = """
import sys
sys.argv = ["agentctl", *sys.argv[1:]]
if len(sys.argv) > 1:
    from agentctl.__main__ import answer
    answer()
print("\\n".join(sys.modules), file=sys.stderr)
"""
# What this Python loads for the modules that we import, and for a named tuple: which others come along
# differs from version to version and is none of our doing.
WITHOUT_US = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
if "typing" in sys.argv:
    from typing import NamedTuple
    NamedTuple("Row", [("name", "str")])
print("\\n".join(sys.modules), file=sys.stderr)
"""
# The standard library's modules that we import ourselves.
AT_ONCE = ("__future__", "errno", "gc", "io")
MAY_IMPORT = {
    "--version": AT_ONCE,
    "--help": AT_ONCE,
    "list": (*AT_ONCE, "argparse", "collections.abc", "encodings.ascii", "gettext", "json", "locale",
             "re", "types", "typing"),
}  # fmt: skip
# Modules of our own, with a few to spare. Raise one only together with what `make bench` says of it.
BUDGETS = {"--version": 3, "--help": 5, "list": 38}
TOO_DEAR = {
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


def loaded(home: Path, program: str, *words: str) -> set[str]:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    # Alone: a neighbour's rehearsal, or a process that is just ending, would be looked into.
    command = [*pid_namespace(), sys.executable, "-I", "-c", program, *words]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stderr.split())


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "agentctl"}


@pytest.mark.parametrize(("verb", "budget"), BUDGETS.items())
def test_a_hot_verb_needs_few_of_our_modules(tmp_path: Path, verb: str, budget: int) -> None:
    found = ours(loaded(tmp_path, PROGRAM, verb))
    assert len(found) <= budget, sorted(found)


@pytest.mark.parametrize("verb", BUDGETS)
def test_a_hot_verb_imports_little_else(tmp_path: Path, verb: str) -> None:
    found = loaded(tmp_path, PROGRAM, verb)
    assert found - ours(found) - loaded(tmp_path, WITHOUT_US, *MAY_IMPORT[verb]) == set()


@pytest.mark.parametrize("verb", BUDGETS)
def test_a_hot_verb_imports_nothing_dear(tmp_path: Path, verb: str) -> None:
    assert not loaded(tmp_path, PROGRAM, verb) & TOO_DEAR


def test_no_adapter_is_imported_for_an_agent_that_does_not_run(tmp_path: Path) -> None:
    adapters = {
        name for name in loaded(tmp_path, PROGRAM, "list") if name.startswith("agentctl.adapters.")
    }
    assert adapters == {f"agentctl.adapters.{name}" for name in ("base", "registry", "roots")}
    assert "sqlite3" not in loaded(tmp_path, PROGRAM, "list")
