"""The journal: what changed, when, and on which evidence. Bounded, ordered by `seq`.

An event is written in the transaction that makes it true. A trigger (`state/schema.py`) adds its
deliveries to the outbox in that transaction. The journal is a record: no status is read back from it.
"""

from __future__ import annotations

import json
import sqlite3

from agentctl.light_typing import Any, Iterable, Mapping, Sequence
from agentctl.state import db
from agentctl.truth.event import Event

__all__ = [
    "Event",
    "Reader",
    "append_event",
    "append_events",
    "escape_bytes",
    "event_of_row",
    "find_daemon_start",
    "find_seq_before",
    "parse_body",
    "prune_events",
    "read_about",
    "read_after",
    "read_first_seq",
    "read_last_events",
    "read_last_seq",
    "read_latest",
    "read_watch_time",
    "shrink_events",
]

MUCH, DEPTH = 1e18, 20  # the largest number in an event, and the deepest nesting
PAGE = 500  # events read at once
_SELECT = 'select seq, type, at, seen_at, adapter, subject, "group", body from event '
_INSERT = (
    'insert into event (type, at, seen_at, adapter, subject, "group", body) values (?, ?, ?, ?, ?, ?, ?)'
)
_LAST = "select seq from sqlite_sequence where name = 'event'"
_AFTER = "where seq > ? order by seq limit ?"
# Not deleted: the last event of a session that has not stopped, and events still to be delivered.
_LIVING = " seq not in (select seq from last_word where type <> 'session.stopped')"
_SPARED = f"{_LIVING} and seq not in (select seq from outbox where phase = 'pending')"
# ruff: noqa: S608 - every part of a query is a constant
_PRUNE = f"delete from event where seen_at < ? and seq not in (select seq from outbox) and{_LIVING}"
_COUNT = f"select count(*) from event where{_SPARED}"
_EDGE = f"select seq from event where{_SPARED} order by seq limit 1 offset ?"
_SHRINK = f"delete from event where seq <= ? and{_SPARED}"
ROOMY = 0.9  # of the limit: shrinking goes down to this, so that it is not needed again at once


def append_event(connection: sqlite3.Connection, event: Event) -> int:
    """Insert the event inside the caller's transaction and return its number. A trigger adds its
    deliveries to the outbox (`state/schema.py`)."""
    subject, group, adapter = (
        escape_bytes(event.subject),
        escape_bytes(event.group),
        escape_bytes(event.adapter),
    )
    values = (event.type, event.at, event.seen_at, adapter, subject, group, _encode_body(event.body))
    return int(connection.execute(_INSERT, values).lastrowid or 0)


def append_events(path: str, events: Iterable[Event]) -> list[int]:
    """Append all of the events or none. Return their numbers. Raises SourceError."""
    with db.transaction(path) as connection:
        return [append_event(connection, event) for event in events]


def read_after(path: str, seq: int, most: int = PAGE) -> list[Event]:
    """Return the events after this number, oldest first; none if there is no journal. Raises
    SourceError."""
    return _read(path, _AFTER, (seq, most))


class Reader:
    """Reads the new events each time. It keeps the database open: opening and closing it would create
    and delete the log each time, and wake a caller that watches these files."""

    def __init__(self, path: str, seq: int) -> None:
        self.seq = seq  # of the last event that was read
        self.is_new_journal = False  # the journal was deleted, and these events are of a new one
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._file: db.FileId | None = None  # the file that we read from

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._file = None

    def read_new(self, most: int = PAGE) -> list[Event]:
        """Return the events since the last call. Raises SourceError."""
        self.is_new_journal, now = False, db.read_file_id(self._path)
        if now is None and self._connection is not None:
            return []  # deleted. We keep it open, so that a new file cannot get the same inode
        if self._connection is None or now != self._file:
            self._open(now)
        if self._connection is None:
            return []
        rows = db.select_rows(self._connection, self._path, _SELECT + _AFTER, (self.seq, most))
        events = [event_of_row(row) for row in rows]
        self.seq = (events[-1].seq or self.seq) if events else self.seq
        return events

    def _open(self, now: db.FileId | None) -> None:
        before = self._file
        self.close()
        self._connection = db.open_existing(self._path)
        if self._connection is None:
            return
        self._file = now
        self.is_new_journal = before is not None or read_last_seq(self._path) < self.seq
        self.seq = 0 if self.is_new_journal else self.seq


def read_latest(path: str, seq: int = 0, most: int = 10 * PAGE) -> list[Event]:
    """Return the latest events after this number, oldest first. Raises SourceError."""
    return _read(path, "where seq > ? order by seq desc limit ?", (seq, most))[::-1]


def read_about(path: str, subject: str) -> list[Event]:
    """Return the events of the sessions whose ids begin with `subject`, oldest first, and those of their
    launches from before the session had an id. Raises SourceError."""
    pattern = "".join(f"[{c}]" if c in "*?[" else c for c in escape_bytes(subject) or "") + "*"
    events = _read(path, "where subject glob ? order by seq", (pattern,))
    launches = {event.body.get("data", {}).get("launch") for event in events} - {None}
    for launch in launches:
        where = "where subject is null and json_extract(body, '$.data.launch') = ? order by seq"
        events += _read(path, where, (launch,))
    return sorted(events, key=lambda event: event.seq or 0)


def read_last_events(path: str) -> list[Event]:
    """Return the last event of each session. Raises SourceError."""
    return _read(path, "where seq in (select seq from last_word) order by seq", ())


def find_seq_before(path: str, moment: float) -> int:
    """Return the number of the last event that was seen before this moment; 0 if there is none. Raises
    SourceError."""
    return _number(path, "select max(seq) from event where seen_at < ?", (moment,))


def read_watch_time(path: str) -> float | None:
    """Return when an observer last recorded an event; None if none ever did. Ordered by number: the
    clock may have been set since. Raises SourceError."""
    where = "where type glob 'session.*' or type glob 'daemon.*' order by seq desc limit 1"
    events = _read(path, where, ())
    return events[0].seen_at if events else None


def find_daemon_start(path: str) -> Event | None:
    """Return the event of the last start of a daemon. Raises SourceError."""
    events = _read(path, "where type = 'daemon.started' order by seq desc limit 1", ())
    return events[0] if events else None


def read_last_seq(path: str) -> int:
    """Return the number of the latest event, even if it was pruned; 0 if there was none. Raises
    SourceError."""
    return _number(path, _LAST, ())


def read_first_seq(path: str) -> int:
    """Return the number of the oldest event; 0 if there is none. Raises SourceError."""
    return _number(path, "select min(seq) from event", ())


def prune_events(connection: sqlite3.Connection, older_than: float) -> int:
    """Delete the events that were seen before this moment. Return how many. The last event of a session
    that has not stopped stays, because the next change is found by comparing with it; events that are
    still to be delivered stay too."""
    connection.execute("delete from outbox where phase <> 'pending' and created_at < ?", (older_than,))
    return connection.execute(_PRUNE, (older_than,)).rowcount


def shrink_events(connection: sqlite3.Connection, most: int) -> int:
    """Delete the oldest events if the database uses more than `most` bytes, nearly all of which are the
    journal. Return how many. The events that `prune_events` keeps stay here too."""
    deleted = 0
    while (used := db.measure_file(connection).used) > (most if not deleted else most * ROOMY):
        (count,) = connection.execute(_COUNT).fetchone()
        if not count:
            break
        share = max(1, int(count * (1 - most * ROOMY / used)))
        edge = connection.execute(_EDGE, (share - 1,)).fetchone()
        connection.execute("delete from outbox where phase <> 'pending' and seq <= ?", edge)
        deleted += connection.execute(_SHRINK, edge).rowcount
    return deleted


def escape_bytes(subject: str | None) -> str | None:
    """Return the text with bytes that are not UTF-8 escaped: a path may have some, a column may not."""
    return subject and subject.encode("utf-8", "backslashreplace").decode()


def _encode_body(body: Mapping[str, Any]) -> str:
    """Return the body as JSON, without values that JSON cannot hold."""
    try:
        return json.dumps(pack_body(body), separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(pack_body(_drop_unsafe(body)), separators=(",", ":"))


def _drop_unsafe(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if -MUCH < value < MUCH else None
    if depth < DEPTH and isinstance(value, Mapping):
        return {str(key): _drop_unsafe(item, depth + 1) for key, item in value.items()}
    if depth < DEPTH and isinstance(value, list | tuple):
        return [_drop_unsafe(item, depth + 1) for item in value]
    return None


def _read(path: str, which: str, parameters: tuple[object, ...]) -> list[Event]:
    return [event_of_row(row) for row in db.read_rows(path, _SELECT + which, parameters)]


def _number(path: str, query: str, parameters: tuple[object, ...]) -> int:
    rows = db.read_rows(path, query, parameters)
    return int(rows[0][0] or 0) if rows else 0


def event_of_row(row: Sequence[Any]) -> Event:
    """Return the event of a row with the columns of `_SELECT`."""
    seq, kind, at, seen_at, adapter, subject, group, body = row
    return Event(
        type=kind,
        seen_at=seen_at,
        at=at,
        adapter=adapter,
        subject=subject,
        group=group,
        body=parse_body(body),
        seq=seq,
    )


def parse_body(text: str) -> dict[str, Any]:
    """Return the body of a stored event. A damaged one becomes a note, so that the others can be
    read."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    return (
        unpack_body(body) if isinstance(body, dict) else {"data": {"problem": "damaged in the journal"}}
    )


# The body of an event is stored without what reading can restore. The evidence that changed a session is
# among the evidence of that session, and most fields of a piece of evidence have their usual value.
# `unpack_body(pack_body(body))` is the body. A body of another form, such as an older agentctl wrote, is
# stored and read as it is.

# The fields of a piece of evidence, in their order, with their usual values.
_USUAL: Mapping[str, Any] = {
    "claim": None,
    "detail": None,
    "authority": None,
    "at": None,
    "address": None,
    "note": None,
    "trusted": True,
    "decided": True,
}


def pack_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body without what `unpack_body` can restore."""
    session, evidence = body.get("session"), body.get("evidence")
    if not isinstance(session, dict) or not _is_packable(session.get("evidence")):
        return body
    if evidence != [piece for piece in session["evidence"] if piece["decided"] is True]:
        return body
    short = {name: value for name, value in session.items() if name != "evidence"}
    pieces = [_drop_usual(piece) for piece in session["evidence"]]
    return {**body, "session": short, "evidence": pieces}


def unpack_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body as it was before `pack_body`."""
    session, evidence = body.get("session"), body.get("evidence")
    if not isinstance(session, dict) or "evidence" in session or not isinstance(evidence, list):
        return body
    pieces = [{**_USUAL, **piece} for piece in evidence if isinstance(piece, dict)]
    session["evidence"] = pieces
    body["evidence"] = [piece for piece in pieces if piece["decided"]]
    return body


def _is_packable(evidence: object) -> bool:
    return isinstance(evidence, list) and all(
        isinstance(piece, dict) and piece.keys() == _USUAL.keys() for piece in evidence
    )


def _drop_usual(piece: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in piece.items() if value is not _USUAL[name]}
