"""The journal: what changed when, and why we thought so. Bounded; told in order, by `seq`.

A line is written in the transaction that makes it true, with the deliveries that follow from it (a
trigger, see `db`), so that neither is there without the other. It is a record of what was told, never
a source of what is: no status is read back from it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from agentctl.state import db
from agentctl.state.event_body import packed, unpacked
from agentctl.truth.event import Event

__all__ = [
    "Event",
    "Reader",
    "after",
    "append",
    "before",
    "body_of",
    "first",
    "last",
    "last_told",
    "last_watcher",
    "latest",
    "of",
    "plain",
    "prune",
    "record",
    "shrink",
    "watched_until",
]

MUCH, DEPTH = 1e18, 20  # of a number, and of values within values, that an event may have
PAGE = 500  # events read at once
_SELECT = 'select seq, type, at, seen_at, adapter, subject, "group", body from event '
_INSERT = (
    'insert into event (type, at, seen_at, adapter, subject, "group", body) values (?, ?, ?, ?, ?, ?, ?)'
)
_LAST = "select seq from sqlite_sequence where name = 'event'"
_AFTER = "where seq > ? order by seq limit ?"
# What must stay: the last word on who has not stopped, and what is to be delivered.
_LIVING = " seq not in (select seq from last_word where type <> 'session.stopped')"
_SPARED = f"{_LIVING} and seq not in (select seq from outbox where phase = 'pending')"
# ruff: noqa: S608 - queries are put together from our own words alone
_PRUNE = f"delete from event where seen_at < ? and seq not in (select seq from outbox) and{_LIVING}"
_COUNT = f"select count(*) from event where{_SPARED}"
_EDGE = f"select seq from event where{_SPARED} order by seq limit 1 offset ?"
_SHRINK = f"delete from event where seq <= ? and{_SPARED}"
ROOMY = 0.9  # of what it may have


def append(connection: sqlite3.Connection, event: Event) -> int:
    """Inside the caller's transaction. Its number."""
    subject, group, adapter = plain(event.subject), plain(event.group), plain(event.adapter)
    values = (event.type, event.at, event.seen_at, adapter, subject, group, _written(event.body))
    told = connection.execute(_INSERT, values)
    return int(told.lastrowid or 0)


def record(path: str, events: Iterable[Event]) -> list[int]:
    """All of them or none. Raises SourceError."""
    with db.transaction(path) as connection:
        return [append(connection, event) for event in events]


def after(path: str, seq: int, most: int = PAGE) -> list[Event]:
    """The next ones, oldest first; none where there is no journal. Raises SourceError."""
    return _read(path, _AFTER, (seq, most))


class Reader:
    """Reads on from where it was, over and over. Keeps the database open: who opens and closes it
    each time makes its log come and go, and is woken by that himself."""

    def __init__(self, path: str, seq: int) -> None:
        self.seq = seq  # the last that was read
        self.anew = False  # what was read last is of another journal: the one before was deleted
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._place: db.Place | None = None  # of what we read from

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._place = None

    def new(self, most: int = PAGE) -> list[Event]:
        """Raises SourceError."""
        self.anew, now = False, db.place(self._path)
        if now is None and self._connection is not None:
            return []  # deleted: it stays open until there is another, so that none has its inode
        if self._connection is None or now != self._place:
            self._open(now)
        if self._connection is None:
            return []
        found = [_event(row) for row in _query(self._connection, self._path, _AFTER, (self.seq, most))]
        self.seq = (found[-1].seq or self.seq) if found else self.seq
        return found

    def _open(self, now: db.Place | None) -> None:
        before = self._place
        self.close()
        self._connection = db.open_existing(self._path)
        if self._connection is None:
            return
        self._place = now
        self.anew = before is not None or last(self._path) < self.seq
        self.seq = 0 if self.anew else self.seq


def latest(path: str, seq: int = 0, most: int = 10 * PAGE) -> list[Event]:
    """The last ones, oldest first, of those after that number. Raises SourceError."""
    return _read(path, "where seq > ? order by seq desc limit ?", (seq, most))[::-1]


def of(path: str, subject: str) -> list[Event]:
    """All about whose id begins so, oldest first; with what became of its launches before it had that
    id. Raises SourceError."""
    pattern = "".join(f"[{c}]" if c in "*?[" else c for c in plain(subject) or "") + "*"
    found = _read(path, "where subject glob ? order by seq", (pattern,))
    launches = {event.body.get("data", {}).get("launch") for event in found} - {None}
    for launch in launches:
        more = "where subject is null and json_extract(body, '$.data.launch') = ? order by seq"
        found += _read(path, more, (launch,))
    return sorted(found, key=lambda event: event.seq or 0)


def last_told(path: str) -> list[Event]:
    """Of each session, the last that was told of it. Raises SourceError."""
    return _read(path, "where seq in (select seq from last_word) order by seq", ())


def before(path: str, moment: float) -> int:
    """The number of the last one that was seen before that moment; 0: none. Raises SourceError."""
    return _number(path, "select max(seq) from event where seen_at < ?", (moment,))


def watched_until(path: str) -> float | None:
    """When somebody who watches sessions last told anything; None: nobody ever did. By the order of the
    telling: the clock may have been set since. Raises SourceError."""
    told = "where type glob 'session.*' or type glob 'daemon.*' order by seq desc limit 1"
    found = _read(path, told, ())
    return found[0].seen_at if found else None


def last_watcher(path: str) -> Event | None:
    """The word of the daemon that began to watch last. Raises SourceError."""
    found = _read(path, "where type = 'daemon.started' order by seq desc limit 1", ())
    return found[0] if found else None


def last(path: str) -> int:
    """The number of the latest, which may be pruned since; 0: none. Raises SourceError."""
    return _number(path, _LAST, ())


def first(path: str) -> int:
    """The number of the oldest that is kept; 0: none. Raises SourceError."""
    return _number(path, "select min(seq) from event", ())


def prune(connection: sqlite3.Connection, older_than: float) -> int:
    """Forgets what was seen before that moment, and tells how many; but not what was last told of a
    session that had not stopped, from which the next change is told, nor what is still to be
    delivered."""
    connection.execute("delete from outbox where phase <> 'pending' and created_at < ?", (older_than,))
    gone = connection.execute(_PRUNE, (older_than,))
    return gone.rowcount


def shrink(connection: sqlite3.Connection, most: int) -> int:
    """Forgets the oldest where more bytes are in use than that (all but a few of the database's are the
    journal's), and tells how many. What `prune` spares is spared here, too. Some room is made, so that
    this is not to be done again at once."""
    gone = 0
    while (used := db.extent(connection).used) > (most if not gone else most * ROOMY):
        (count,) = connection.execute(_COUNT).fetchone()
        if not count:
            break
        share = max(1, int(count * (1 - most * ROOMY / used)))
        edge = connection.execute(_EDGE, (share - 1,)).fetchone()
        connection.execute("delete from outbox where phase <> 'pending' and seq <= ?", edge)
        gone += connection.execute(_SHRINK, edge).rowcount
    return gone


def plain(subject: str | None) -> str | None:
    """A directory may hold bytes that are no text, which no column takes."""
    return subject and subject.encode("utf-8", "backslashreplace").decode()


def _written(body: Mapping[str, Any]) -> str:
    """As JSON. A value that JSON cannot hold is left out: the event is told without it."""
    try:
        return json.dumps(packed(body), separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(packed(_harmless(body)), separators=(",", ":"))


def _harmless(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if -MUCH < value < MUCH else None
    if depth < DEPTH and isinstance(value, Mapping):
        return {str(key): _harmless(each, depth + 1) for key, each in value.items()}
    if depth < DEPTH and isinstance(value, list | tuple):
        return [_harmless(each, depth + 1) for each in value]
    return None


def _read(path: str, which: str, parameters: tuple[object, ...]) -> list[Event]:
    return [_event(row) for row in _rows(path, which, parameters)]


def _number(path: str, query: str, parameters: tuple[object, ...]) -> int:
    rows = _rows(path, query, parameters)
    return int(rows[0][0] or 0) if rows else 0


def _rows(path: str, query: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
    connection = db.open_existing(path)
    if connection is None:
        return []
    try:
        return _query(connection, path, query, parameters)
    finally:
        connection.close()


def _query(
    connection: sqlite3.Connection, path: str, query: str, parameters: tuple[object, ...]
) -> list[tuple[Any, ...]]:
    """A query; or which events, of all columns."""
    try:
        whole = query if query.startswith("select") else _SELECT + query
        return connection.execute(whole, parameters).fetchall()
    except sqlite3.Error as error:
        if "no such table" in str(error):  # made by an agentctl that kept none
            return []
        raise db.answer(error, path) from error


def _event(row: tuple[Any, ...]) -> Event:
    seq, kind, at, seen_at, adapter, subject, group, body = row
    return Event(kind, seen_at, at, adapter, subject, group, body_of(body), seq)


def body_of(text: str) -> dict[str, Any]:
    """As it was written; one that is damaged costs no other event."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return (
        unpacked(found) if isinstance(found, dict) else {"data": {"problem": "damaged in the journal"}}
    )
