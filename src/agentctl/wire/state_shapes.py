"""What agentctl itself keeps, as plain dicts: locks, settings, and what `prune` removed.
docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentctl.state.lock import Lock
from agentctl.system.clock import rfc3339
from agentctl.truth.model import Problem
from agentctl.wire.session import VERSION, problem

LOCK_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("directory", "string", "the real path of what is held"),
    ("kind", "string", "agent: held while its process lives; person: until released, or over"),
    ("session_id", "string | null", "agent: the session that works there, where known"),
    ("launch_id", "string | null", "agent: the launch that took it"),
    ("name", "string | null", "agent: the launch's name"),
    ("pid", "integer | null", "agent: the process it ends with"),
    ("foreign", "boolean", "that process is in another container: whether it lives cannot be told"),
    ("by", "string | null", "person: who took it"),
    ("reason", "string | null", "person: why"),
    ("created_at", "time", "since when"),
    ("expires_at", "time | null", "person: until when; null: until released"),
)  # fmt: skip
SETTING_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("key", "string", "as in the file, with its section: defaults.model"),
    ("value", "any", "what is used; lengths of time in seconds; of a secret, set; null: nothing is set"),
    ("source", "string", "environment, file or default"),
    ("where", "string | null", "the variable, or the file and line"),
)
PRUNED_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("kind", "string", "launch, folder, lock, cache, file; or end: finishing work that was due"),
    ("what", "string", "the launch's id, the directory or file; of the cache: how many entries"),
    ("why", "string", "why it may go, in one sentence"),
)


def locks(given: Iterable[Lock], problems: Iterable[Problem] = ()) -> dict[str, Any]:
    return _envelope("locks", [lock(each) for each in given], problems)


def lock(given: Lock) -> dict[str, Any]:
    identity = given.identity
    return {
        "directory": given.directory,
        "kind": "person" if identity is None else "agent",
        "session_id": given.session_id,
        "launch_id": given.launch_id or None,
        "name": given.name,
        "pid": identity.pid if identity is not None else None,
        "foreign": given.foreign,
        "by": given.by,
        "reason": given.reason,
        "created_at": rfc3339(given.created_at),
        "expires_at": rfc3339(given.expires_at),
    }


def settings(file: str | None, given: Iterable[tuple[str, Any, str, str]]) -> dict[str, Any]:
    rows = [
        {"key": key, "value": value, "source": source, "where": where or None}
        for key, value, source, where in given
    ]
    return {"version": VERSION, "file": file, "settings": rows}


def pruned(
    given: Iterable[tuple[str, str, str]], problems: Iterable[Problem], *, dry_run: bool
) -> dict[str, Any]:
    rows = [{"kind": kind, "what": what, "why": why} for kind, what, why in given]
    return {"dry_run": dry_run, **_envelope("pruned", rows, problems)}


def _envelope(name: str, rows: list[dict[str, Any]], problems: Iterable[Problem]) -> dict[str, Any]:
    return {"version": VERSION, name: rows, "problems": [problem(each) for each in problems]}
