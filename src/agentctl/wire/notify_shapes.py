"""Who is told of what, as plain dicts. docs/reference/json.md is generated from the table here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentctl.config.targets import Notify
from agentctl.system.clock import rfc3339
from agentctl.truth.event import Event
from agentctl.urls import shown
from agentctl.wire.session import VERSION

TARGET_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("name", "string", "of the target: [notify.NAME]"),
    ("way", "string", "desktop, url or command"),
    ("to", "string | null", "the address without what may be secret, or the command"),
    ("on", "array", "waiting, finished, failed"),
    ("adapters", "array", "only of these agents; empty: of all"),
    ("groups", "array", "only of launches in these groups; empty: of all"),
    ("pending", "integer", "how many are still to be told"),
    ("last", "object | null", "what became of the last: result (delivered, quiet, failed), at, why (null: nothing to say), session_id"),
)  # fmt: skip


def way(target: Notify) -> tuple[str, str | None]:
    """How, and where to."""
    if target.url.value is not None:
        return "url", shown(target.url.value)
    if target.command.value is not None:
        return "command", target.command.value
    return "desktop", None


def targets(
    given: Iterable[Notify], last: Mapping[str, Event], pending: Mapping[str, int]
) -> dict[str, Any]:
    return {"version": VERSION, "targets": [_target(one, last, pending) for one in given]}


def why(event: Event) -> str | None:
    data = event.body.get("data") or {}
    return data.get("error") or data.get("why")


def _target(target: Notify, last: Mapping[str, Event], pending: Mapping[str, int]) -> dict[str, Any]:
    how, to = way(target)
    event = last.get(target.name)
    return {
        "name": target.name,
        "way": how,
        "to": to,
        "on": list(target.on.value),
        "adapters": list(target.adapters.value),
        "groups": list(target.groups.value),
        "pending": pending.get(target.name, 0),
        "last": None if event is None else _last(event),
    }


def _last(event: Event) -> dict[str, Any]:
    result = event.type.partition(".")[2]
    at, session = rfc3339(event.seen_at), event.subject
    return {"result": result, "at": at, "why": why(event), "session_id": session}
