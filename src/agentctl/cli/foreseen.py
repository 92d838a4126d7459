"""What a launch would do, exactly, and that it does nothing yet: `--dry-run`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from agentctl import paths
from agentctl.launch.order import Order, Prepared
from agentctl.text import one_line
from agentctl.wire import session

Description = Mapping[str, Any]


def described(start: Prepared) -> Description:
    """What would be done, exactly. Secrets in the environment are the caller's own, and not repeated:
    only what is added is shown."""
    order = start.order
    return {
        "adapter": order.adapter,
        "command": list(order.command.argv),
        "cwd": order.command.cwd,
        "stdin_bytes": len(order.command.stdin),
        "environment": {"set": _shown(start), "unset": list(start.removed)},
        "session_id": order.command.session_id or order.command.expected,
        "lock": order.command.cwd,
        "lock_held_by": _in_the_way(order),
        "worktree": order.worktree._asdict() if order.worktree is not None else None,
        "on_create": order.on_create,
        "on_complete": order.on_complete,
        "timeout_s": order.timeout,
    }


def _shown(start: Prepared) -> dict[str, str]:
    """A value of the caller's that is only added to may hold the caller's keys."""
    yours = {name for name, _ in start.order.command.extended if name in os.environ}
    return {name: "(yours, added to)" if name in yours else value for name, value in start.added}


def lines(told: Description) -> str:
    import shlex

    environment = told["environment"]
    shown = [
        ("agent", told["adapter"]),
        ("command", shlex.join(told["command"])),
        ("directory", told["cwd"]),
        ("prompt", f"{told['stdin_bytes']} bytes, through standard input"),
        *(("set", f"{name}={shlex.quote(value)}") for name, value in environment["set"].items()),
        *(("unset", name) for name in environment["unset"]),
        ("session id", told["session_id"] or "chosen by the agent"),
        ("lock", told["lock"]),
        ("", told["lock_held_by"]),
        ("worktree", _worktree(told["worktree"])),
        ("on-create", told["on_create"]),
        ("on-complete", told["on_complete"]),
        ("timeout", f"{told['timeout_s']:g} s" if told["timeout_s"] else None),
    ]
    # a model may stand in the transcript that is resumed, a name in a file that came with a repository
    return "\n".join(f"{name:<12}{one_line(value)}" for name, value in shown if value)


def show(told: list[Description], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"version": session.VERSION, "launches": told}, indent=1))
    else:
        print("\n\n".join(lines(each) for each in told))


def _in_the_way(order: Order) -> str | None:
    """Why it would be refused, if so."""
    from agentctl.state import locks

    state = paths.state_directory(os.environ)
    found = locks.holders(paths.notes_file(state), order.command.cwd) if state is not None else []
    if not found:
        return None
    return str(locks.refusal(found[0])) + (" (--force: beside it)" if order.force else "")


def _worktree(told: Mapping[str, str] | None) -> str | None:
    return f"{told['path']} (branch {told['branch']} from {told['base'][:12]})" if told else None
