"""Text about launches: what a dry run would do."""

from __future__ import annotations

import shlex

from agentctl.light_typing import Any, Mapping
from agentctl.text import clean_line


def dry_run_text(description: Mapping[str, Any]) -> str:
    """Return one line for each thing that the launch would do."""
    environment, timeout = description["environment"], description["timeout_s"]
    lines = [
        ("agent", description["adapter"]),
        ("command", shlex.join(description["command"])),
        ("directory", description["cwd"]),
        ("prompt", f"{description['stdin_bytes']} bytes, through standard input"),
        *(("set", f"{name}={shlex.quote(value)}") for name, value in environment["set"].items()),
        *(("unset", name) for name in environment["unset"]),
        ("session id", description["session_id"] or "chosen by the agent"),
        ("lock", description["lock"]),
        ("", description["lock_held_by"]),
        ("worktree", _worktree_text(description["worktree"])),
        ("on-create", description["on_create"]),
        ("on-complete", description["on_complete"]),
        ("timeout", f"{timeout:g} s" if timeout else None),
    ]
    # clean_line: a model may come from a transcript, a name from a file in a repository
    return "\n".join(f"{name:<12}{clean_line(value)}" for name, value in lines if value)


def _worktree_text(worktree: Mapping[str, str] | None) -> str | None:
    if worktree is None:
        return None
    return f"{worktree['path']} (branch {worktree['branch']} from {worktree['base'][:12]})"
