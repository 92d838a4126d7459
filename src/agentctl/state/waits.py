"""What was told of a session around the moment at which it began to wait."""

from __future__ import annotations

from typing import Any

from agentctl.errors import Gone
from agentctl.state import db
from agentctl.truth.event import Event

# Says nothing of what it does: between two of the same, it does not make them two.
_AROUND = (
    "select seq, type, at, json_extract(body, '$.session.waiting_for') from event"
    " where adapter is ? and subject is ? and type glob 'session.*'"
    " and type not in ('session.unknown', 'session.identified')"
)


def since(path: str, event: Event) -> str | None:
    """The type of the last event about it that came later; None: there is none. Raises SourceError."""
    rows = _rows(path, f"{_AROUND} and seq > ? order by seq desc limit 1", *_whose(event))
    return rows[0][1] if rows else None


def told(path: str, target: str, event: Event) -> bool:
    """Whether this target was told of the very same wait, and nothing else has been since. Raises
    SourceError."""
    rows = _rows(path, f"{_AROUND} and seq < ? order by seq desc limit 1", *_whose(event))
    if not rows:
        return False
    seq, kind, at, waiting_for = rows[0]
    same = (event.body.get("session") or {}).get("waiting_for") == waiting_for
    when = at is None or event.at is None or at == event.at
    return kind == "session.waiting" and same and when and _delivered(path, target, seq)


def _delivered(path: str, target: str, seq: int) -> bool:
    query = (
        "select 1 from outbox where kind = 'notify' and target = ? and seq = ? and phase = 'delivered'"
    )
    return bool(_rows(path, query, target, seq))


def _whose(event: Event) -> tuple[object, ...]:
    return event.adapter, event.subject, event.seq


def _rows(path: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with db.reader(path) as database:
        if database is None:
            raise Gone(path, "no such file")
        return database.rows(query, parameters)
