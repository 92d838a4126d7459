"""The JSON of `daemon status`. docs/reference/json.md is generated from the tables here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctl.wire.session import VERSION

DAEMON_FIELDS: tuple[tuple[str, str, str], ...] = (
    ("pid", "integer", "its process"),
    ("start", "integer", "clock ticks after boot at which that began: with the pid, its identity"),
    ("version", "string", "of the agentctl that it is"),
    ("protocol", "integer", "what it speaks on its socket"),
    ("since", "time", "when it started"),
    ("home", "string", "whose events it keeps: AGENTCTL_HOME"),
    ("socket", "string", "where it listens"),
    ("memory_bytes", "integer | null", "what it has to itself; null: the kernel does not say"),
    ("clients", "integer", "connections, with the one that asks"),
    ("subscribers", "integer", "those of them that wait for events"),
    ("seq", "integer | null", "the last event in the journal; null: it cannot be read"),
    (
        "parts",
        "array",
        "name, state (running, degraded, failing, failed, off), problem, and what else each tells",
    ),
)


def daemon(told: Mapping[str, Any] | None) -> dict[str, Any]:
    """None: none runs. What a newer daemon tells beyond the table stays out of it."""
    if told is None:
        return {"version": VERSION, "daemon": None}
    return {"version": VERSION, "daemon": {name: told.get(name) for name, _, _ in DAEMON_FIELDS}}
