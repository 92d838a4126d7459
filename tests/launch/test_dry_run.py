"""What a launch would do, described exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentctl.adapters.plans import Command
from agentctl.launch.dry_run import describe_order
from agentctl.launch.order import Order, StartRequest
from agentctl.truth.model import Worktree


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without locks."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENTCTL_HOME", str(tmp_path / "state"))


def order(**more: object) -> Order:
    command = Command(("/bin/agent", "-x", "two words"), "/w", b"prompt")
    request = StartRequest("demo", "prompt", "/w")._replace(**more)  # type: ignore[arg-type]
    added = (("KEY", "a b"), ("AGENTCTL_LAUNCH_ID", "1a"))
    return Order(
        request=request, command=command, environ={}, id="1a", removed=("CLAUDECODE",), added=added
    )


def test_all_that_would_be_done() -> None:
    tree = Worktree("/repo", "/w", "b", "c" * 40)
    assert describe_order(order(worktree=tree, on_complete="make", timeout=90.0)) == {
        "adapter": "demo",
        "command": ["/bin/agent", "-x", "two words"],
        "cwd": "/w",
        "stdin_bytes": 6,
        "environment": {
            "set": {"KEY": "a b", "AGENTCTL_LAUNCH_ID": "1a"},
            "unset": ["CLAUDECODE"],
        },
        "session_id": None,
        "lock": "/w",
        "lock_held_by": None,
        "worktree": {"repository": "/repo", "path": "/w", "branch": "b", "base": "c" * 40},
        "on_create": None,
        "on_complete": "make",
        "timeout_s": 90.0,
    }


def test_a_value_that_is_only_extended_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "secret")
    plain = order()
    extending = plain._replace(command=plain.command._replace(override=(("KEY", "a b"),)))
    assert describe_order(extending)["environment"]["set"]["KEY"] == "(yours, added to)"
