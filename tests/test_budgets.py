"""What the hot verbs may import. An import is paid at every call: this fails long before a clock
would tell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.argv = ["agentctl", *sys.argv[1:]]
if len(sys.argv) > 1:
    from agentctl.__main__ import answer
    answer()
print("\\n".join(sys.modules), file=sys.stderr)
"""
# Modules beyond those of the bare interpreter, with a few to spare. Raise one only together with
# what `make bench` says of it.
BUDGETS = {"--version": 6, "--help": 8, "list": 71}
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


def loaded(home: Path, *words: str) -> set[str]:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "AGENTCTL_CONFINE": "NO=BODY"}
    command = [sys.executable, "-I", "-c", PROGRAM, *words]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    return set(ran.stderr.split())


@pytest.mark.parametrize(("verb", "budget"), BUDGETS.items())
def test_a_hot_verb_imports_little(tmp_path: Path, verb: str, budget: int) -> None:
    ours = loaded(tmp_path, verb) - loaded(tmp_path)
    assert len(ours) <= budget, sorted(ours)


@pytest.mark.parametrize("verb", BUDGETS)
def test_a_hot_verb_imports_nothing_dear(tmp_path: Path, verb: str) -> None:
    assert not loaded(tmp_path, verb) & TOO_DEAR


def test_no_adapter_is_imported_for_an_agent_that_does_not_run(tmp_path: Path) -> None:
    adapters = {name for name in loaded(tmp_path, "list") if name.startswith("agentctl.adapters.")}
    assert adapters == {"agentctl.adapters.base", "agentctl.adapters.registry"}
    assert "sqlite3" not in loaded(tmp_path, "list")
