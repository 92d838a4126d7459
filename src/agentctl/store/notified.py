"""What became of the last notification of each target, as the journal tells it."""

from __future__ import annotations

import json

from agentctl.errors import Gone
from agentctl.truth import files
from agentctl.truth.event import Event
from agentctl.truth.sqlite_ro import Database

# SQLite takes the other columns from the row of the maximum.
_LAST = (
    "select json_extract(body, '$.data.target') as target, max(seq), type, seen_at, at, adapter,"
    " subject, \"group\", body from event where type glob 'notify.*' group by target"
)
_PENDING = (
    "select target, count(*) from outbox where kind = 'notify' and phase = 'pending' group by target"
)


def last(path: str) -> dict[str, Event]:
    """By target. Raises SourceError."""
    found = _opened(path)
    if found is None:
        return {}
    with found as database:
        rows = database.rows(_LAST) if database.columns("event") else []
    return {
        target: Event(kind, seen_at, at, adapter, subject, group, json.loads(body), seq)
        for target, seq, kind, seen_at, at, adapter, subject, group, body in rows
    }


def pending(path: str) -> dict[str, int]:
    """How many are still to be told, by target. Raises SourceError."""
    found = _opened(path)
    if found is None:
        return {}
    with found as database:
        return dict(database.rows(_PENDING)) if database.columns("outbox") else {}


def _opened(path: str) -> Database | None:
    try:
        files.status(path)
    except Gone:
        return None
    return Database(path)
