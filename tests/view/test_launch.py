"""Text about launches."""

from __future__ import annotations

from typing import Any

from agentctl.view.launch import dry_run_text
from tests.cli.hostile import ALL, ESCAPES, harmful

DESCRIPTION: dict[str, Any] = {
    "adapter": "demo",
    "command": ["/bin/agent", "-x", "two words"],
    "cwd": "/w",
    "stdin_bytes": 6,
    "environment": {"set": {"KEY": "a b", "AGENTCTL_LAUNCH_ID": "1a"}, "unset": ["CLAUDECODE"]},
    "session_id": None,
    "lock": "/w",
    "lock_held_by": None,
    "worktree": {"repository": "/repo", "path": "/w", "branch": "b", "base": "c" * 40},
    "on_create": None,
    "on_complete": "make",
    "timeout_s": 90.0,
}


def test_a_dry_run_has_a_line_for_each_fact() -> None:
    assert dry_run_text(DESCRIPTION).splitlines() == [
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


def test_hostile_values_are_harmless() -> None:
    """A model may come from the transcript that is resumed, a name from a matrix file."""
    directory = f"/{ESCAPES}".replace("\0", "")
    hostile = {
        **DESCRIPTION,
        "command": ["/bin/agent", "-m", ALL],
        "cwd": directory,
        "lock": directory,
        "session_id": ALL,
        "environment": {"set": {ALL: ALL}, "unset": [ALL]},
        "worktree": {"repository": ALL, "path": f"/{ALL}", "branch": ALL, "base": ALL},
        "on_create": ALL,
        "on_complete": ALL,
        "timeout_s": None,
    }
    text = dry_run_text(hostile)
    assert harmful(text) == []
    assert len(text.splitlines()) == 11  # no value gets a line of its own
