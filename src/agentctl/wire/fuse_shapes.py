"""Fuses as plain dicts. docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentctl.state.fuse import LIT, Fuse, Moment
from agentctl.system.clock import rfc3339
from agentctl.truth.model import Problem
from agentctl.wire.session import VERSION, problem

FUSE_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("id", "string", "any prefix of it that is unambiguous will do"),
    ("directory", "string | null", "the real path of what it is on; null: it is on a session"),
    ("adapter", "string | null", "of the session that it is on"),
    ("session_id", "string | null", "the session that it is on; null: on a directory, or not known yet"),
    ("launch_id", "string | null", "it is the --timeout of that launch; null: it was set by hand"),
    ("label", "string | null", "given with --label; timeout for a timeout"),
    ("state", "string", "burning, firing, fired, failed or cancelled"),
    ("actions", "array", "what it does, in this order: do (stop, run, emit, webhook) and what; an address without its secrets"),
    ("created_at", "time", "when it was set"),
    ("due_at", "time", "when it fires, by the clock as it is set now"),
    ("left_seconds", "number | null", "until then; negative: overdue; null: it burns no more"),
    ("cwd", "string | null", "where its command runs; null: in a folder of its own"),
    ("fired_by", "integer | null", "pid of the process that fires it, or has"),
    ("settled_at", "time | null", "when it had fired, failed or been cancelled"),
    ("reason", "string | null", "why it was cancelled"),
    ("results", "array", "what came of each action, in the same order, see below; null: not done yet"),
)  # fmt: skip
RESULT_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("do", "string", "which action: stop, run, emit or webhook"),
    ("ok", "boolean", "whether it went well"),
    ("at", "time", "when it was done"),
    ("error", "string", "why it did not go well, where the action itself could not be done"),
    ("command", "string", "run: the command"),
    ("code", "integer | null", "run: its exit code; null: it was not known, or it took too long"),
    ("seconds", "number", "run: how long that took"),
    ("output", "string", "run: the file with what it said"),
    ("stopped", "array", "stop: of each session the proof, as `stop` tells it, and error"),
    ("delivery", "string", "webhook: the id of the delivery; what became of that is told by `webhook list`"),
)  # fmt: skip


def fuses(given: Iterable[Fuse], now: Moment, problems: Iterable[Problem] = ()) -> dict[str, Any]:
    rows = [fuse(each, now) for each in given]
    return {"version": VERSION, "fuses": rows, "problems": [problem(each) for each in problems]}


def fuse(given: Fuse, now: Moment) -> dict[str, Any]:
    lit = given.state in LIT
    return {
        "id": given.id,
        "directory": given.directory,
        "adapter": given.adapter,
        "session_id": given.session_id,
        "launch_id": given.launch_id,
        "label": given.label,
        "state": given.state,
        "actions": [each.shown() for each in given.actions],
        "created_at": rfc3339(given.created_at),
        "due_at": rfc3339(now.at + given.left(now) if lit else given.due_at),
        "left_seconds": round(given.left(now), 3) if lit else None,
        "cwd": given.cwd,
        "fired_by": given.claim.identity.pid if given.claim is not None else None,
        "settled_at": rfc3339(given.settled_at),
        "reason": given.reason,
        "results": list(given.results),
    }
