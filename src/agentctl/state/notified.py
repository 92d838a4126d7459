"""What became of the last notification of each target, as the journal tells it."""

from __future__ import annotations

from agentctl.state import db, journal
from agentctl.truth.event import Event

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
    with db.reader(path) as database:
        there = database is not None and database.columns("event")
        rows = database.rows(_LAST) if database is not None and there else []
    return {
        target: Event(kind, seen_at, at, adapter, subject, group, journal.body_of(body), seq)
        for target, seq, kind, seen_at, at, adapter, subject, group, body in rows
    }


def pending(path: str) -> dict[str, int]:
    """How many are still to be told, by target. Raises SourceError."""
    with db.reader(path) as database:
        if database is None or not database.columns("outbox"):
            return {}
        return dict(database.rows(_PENDING))
