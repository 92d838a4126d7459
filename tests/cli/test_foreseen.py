"""What a launch would do, told exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentctl.adapters.plans import Command
from agentctl.cli import foreseen
from agentctl.launch.order import Order, Prepared
from agentctl.truth.model import Worktree
from tests.cli.hostile import ALL, ESCAPES, harmful


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose locks are looked at."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCTL_HOME", str(tmp_path / "state"))


def _start(**more: object) -> Prepared:
    command = Command(("/bin/agent", "-x", "two words"), "/w", b"prompt")
    order = Order("demo", command, {}, "1a")._replace(**more)  # type: ignore[arg-type]
    return Prepared(order, ("CLAUDECODE",), (("KEY", "a b"), ("AGENTCTL_LAUNCH_ID", "1a")))


def test_a_plan_for_people() -> None:
    tree = Worktree("/repo", "/w", "b", "c" * 40)
    told = foreseen.lines(foreseen.described(_start(worktree=tree, on_complete="make", timeout=90.0)))
    assert told.splitlines() == [
        "agent       demo",
        "command     /bin/agent -x 'two words'",
        "directory   /w",
        "prompt      6 bytes, through standard input",
        "set         KEY='a b'",
        "set         AGENTCTL_LAUNCH_ID=1a",
        "unset       CLAUDECODE",
        "session id  chosen by the agent",
        "lock        /w",
        f"worktree    /w (branch b from {'c' * 12})",
        "on-complete make",
        "timeout     90 s",
    ]


def test_what_others_wrote_commands_no_terminal() -> None:
    """A model may stand in the transcript that is resumed, a name in a matrix file."""
    command = Command(("/bin/agent", "-m", ALL), f"/{ESCAPES}".replace("\0", ""), b"", session_id=ALL)
    tree = Worktree(ALL, f"/{ALL}", ALL, ALL)
    start = _start(command=command, worktree=tree, on_create=ALL, on_complete=ALL)
    told = foreseen.lines(foreseen.described(start._replace(removed=(ALL,), added=((ALL, ALL),))))
    assert harmful(told) == []
    assert len(told.splitlines()) == 11  # and no line of its own


def test_a_plan_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    foreseen.show([foreseen.described(_start()), foreseen.described(_start())], as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["version"] == 1
    assert len(told["launches"]) == 2
    plan = told["launches"][0]
    assert plan["command"] == ["/bin/agent", "-x", "two words"]
    assert plan["environment"]["unset"] == ["CLAUDECODE"]
    assert plan["worktree"] is None
