"""What is still to be delivered, and what became of the rest.

A row is written with its event (a trigger, see `db`). Then, each in one transaction: `claim` before a
try, and `delivered`, `failed` or `dead` after it. Whoever dies between two of them leaves a row that is
due again: nothing is lost, and what arrives twice arrives under one id.
"""

# ruff: noqa: S608 - queries are put together from our own words alone
from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from agentctl.state import db, journal
from agentctl.truth.event import Event

ERROR = 1000  # characters of what a target answered that are kept
# What the end of a delivery is called, by its kind.
ENDS = {
    "webhook": {"delivered": "webhook.delivered", "dead": "webhook.dead"},
    "notify": {"delivered": "notify.delivered", "dead": "notify.failed", "dropped": "notify.quiet"},
}
_FIELDS = (
    "id, kind, target, url, seq, created_at, due_at, first_at, attempted_at, attempt, phase, error,"
    " delivered_at"
)
_SELECT = f"select {_FIELDS} from outbox "
_LISTED = (
    f"select {_FIELDS}, (select type from event where event.seq = outbox.seq) from outbox"
    " where kind = ? and (? or phase in ('pending', 'dead')) order by created_at, seq"
)
# A clock that was set back must not keep anything waiting: what was tried, or written, later than now
# is due.
_DUE = "(due_at <= :now or coalesce(attempted_at, created_at) > :now)"
_OF_LANE = "phase = 'pending' and kind = :kind and target = :target and url is :url"
_WAITING = (
    f"select kind, target, url, count(*), min(iif({_DUE}, 0, due_at)), min(created_at) from outbox"
    " where phase = 'pending' group by kind, target, url"
)
_NEXT = (
    "update outbox set due_at = :now where id = (select id from outbox"
    f" where {_OF_LANE} and due_at > :now order by attempted_at, seq limit 1)"
)


class Lane(NamedTuple):
    """Deliveries that wait for each other: those to one target, or to one address."""

    kind: str
    target: str
    url: str | None = None  # of one that is in no settings


class Delivery(NamedTuple):
    id: str
    kind: str
    target: str
    url: str | None
    seq: int  # of the event
    created_at: float
    due_at: float
    first_at: float | None  # the first try
    attempted_at: float | None  # the last
    attempt: int
    state: str  # pending, then delivered; dead: given up; dropped: not needed
    error: str | None
    delivered_at: float | None

    @property
    def lane(self) -> Lane:
        return Lane(self.kind, self.target, self.url)


class Waiting(NamedTuple):
    lane: Lane
    pending: int
    due_at: float  # 0: now
    oldest: float


def waiting(path: str, now: float, held: sqlite3.Connection | None = None) -> list[Waiting]:
    """Every lane in which something is to be delivered. `held`: a connection that stays open, to ask
    which takes a tenth of what it takes to open one. Raises SourceError."""
    if held is None:
        rows = _rows(path, _WAITING, {"now": now})
    else:
        try:
            rows = held.execute(_WAITING, {"now": now}).fetchall()
        except sqlite3.Error as error:
            raise db.answer(error, path) from error
    return [Waiting(Lane(*row[:3]), *row[3:]) for row in rows]


def next_due(path: str, lane: Lane, now: float) -> Delivery | None:
    """The one that has waited longest for its turn. Raises SourceError."""
    where = f"where {_OF_LANE} and {_DUE} order by due_at, seq limit 1"
    found = _rows(path, _SELECT + where, {**lane._asdict(), "now": now})
    return Delivery(*found[0]) if found else None


def claim(path: str, delivery: Delivery, now: float, again_at: float) -> Delivery | None:
    """Counts a try that is about to be made; if it is the last thing we do, the next one is at
    `again_at`. None: it is not to be delivered any more."""
    with db.transaction(path) as connection:
        connection.execute(
            "update outbox set attempt = attempt + 1, first_at = coalesce(first_at, :now),"
            " attempted_at = :now, due_at = :again where id = :id and phase = 'pending'",
            {"now": now, "again": again_at, "id": delivery.id},
        )
        return _one(connection, delivery.id)


def failed(path: str, delivery: Delivery, error: str, again_at: float) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "update outbox set error = ?, due_at = ? where id = ? and phase = 'pending'",
            (error[:ERROR], again_at, delivery.id),
        )


def delivered(path: str, delivery: Delivery, now: float, data: Mapping[str, Any]) -> bool:
    """With the event that tells of it. A target that takes one may take the next: that which was tried
    longest ago is due at once, and if it is taken, the next, until one is not."""
    with db.transaction(path) as connection:
        if not _end(connection, delivery, "delivered", now, **data):
            return False
        connection.execute(_NEXT, {**delivery.lane._asdict(), "now": now})
        return True


def dead(path: str, delivery: Delivery, now: float, error: str) -> bool:
    """Given up, with the event that tells of it."""
    with db.transaction(path) as connection:
        return _end(connection, delivery, "dead", now, error=error)


def dropped(path: str, delivery: Delivery, now: float, why: str) -> bool:
    """Not needed any more, with the event that tells of it."""
    with db.transaction(path) as connection:
        return _end(connection, delivery, "dropped", now, why=why)


def abandon(path: str, lane: Lane, before: float, now: float, why: str) -> int:
    """Gives up what was written before that moment for a target that is not there. How many."""
    with db.transaction(path) as connection:
        rows = connection.execute(
            _SELECT + "where " + _OF_LANE + " and created_at < :before",
            {**lane._asdict(), "before": before},
        ).fetchall()
        return sum(_end(connection, Delivery(*row), "dead", now, error=why) for row in rows)


def retry(path: str, ids: list[str], now: float) -> int:
    """Their tries begin anew, now; also of those that were given up. How many there were."""
    with db.transaction(path) as connection:
        return sum(
            connection.execute(
                "update outbox set phase = 'pending', attempt = 0, first_at = null, attempted_at = null,"
                " due_at = ? where id = ? and phase <> 'delivered'",
                (now, id_),
            ).rowcount
            for id_ in ids
        )


def listed(path: str, kind: str, *, all_of_them: bool = False) -> list[tuple[Delivery, str]]:
    """Each with the type of its event, the oldest first; those that were delivered only if asked for."""
    rows = _rows(path, _LISTED, (kind, all_of_them))
    return [(Delivery(*row[:-1]), row[-1] or "") for row in rows]


def _end(
    connection: sqlite3.Connection,
    delivery: Delivery,
    state: str,
    now: float,
    *,
    error: str | None = None,
    **data: Any,
) -> bool:
    """Whether it was still to be delivered."""
    error = error[:ERROR] if error else None
    ended = connection.execute(
        "update outbox set phase = ?, error = ?, delivered_at = ? where id = ? and phase = 'pending'",
        (state, error, now if state == "delivered" else None, delivery.id),
    )
    if ended.rowcount != 1:
        return False
    told = {"target": delivery.target, "delivery": delivery.id, "attempt": delivery.attempt, **data}
    if error:
        told["error"] = error
    _tell(connection, delivery, ENDS[delivery.kind][state], now, told)
    return True


def _tell(
    connection: sqlite3.Connection, delivery: Delivery, kind: str, now: float, told: dict[str, Any]
) -> None:
    """About whom the event was, so that it stands in the history of that session."""
    row = connection.execute(
        'select type, adapter, subject, "group" from event where seq = ?', (delivery.seq,)
    ).fetchone()
    of, adapter, subject, group = row or (None, None, None, None)
    told["of"] = {"seq": delivery.seq, "type": of}
    journal.append(connection, Event(kind, now, now, adapter, subject, group, {"data": told}))


def _one(connection: sqlite3.Connection, id_: str) -> Delivery | None:
    row = connection.execute(_SELECT + "where id = ? and phase = 'pending'", (id_,)).fetchone()
    return Delivery(*row) if row is not None else None


def _rows(path: str, query: str, parameters: Any) -> list[tuple[Any, ...]]:
    connection = db.open_existing(path)
    if connection is None:
        return []
    try:
        return connection.execute(query, parameters).fetchall()
    except sqlite3.Error as error:
        if "no such table" in str(error):  # made by an agentctl that delivered nothing
            return []
        raise db.answer(error, path) from error
    finally:
        connection.close()
