"""Deliveries: which are pending, and how the others ended.

A trigger (`state/schema.py`) writes a row together with its event. Then, each in one transaction: a
claim before an attempt, and the result after it. A process that dies in between leaves a row that is due
again: nothing is lost, and a second arrival has the same id.
"""

from __future__ import annotations

import json
import sqlite3

from agentctl.config.keys import ENVIRONMENT, Notify, Webhook
from agentctl.errors import Gone
from agentctl.light_typing import Any, Iterable, Mapping, NamedTuple
from agentctl.state import db, journal
from agentctl.truth.event import Event

# ruff: noqa: S608 - every part of a query is a constant

ERROR = 1000  # characters of a target's answer that we keep
# The type of the event that records the end of a delivery, by the kind of its target.
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
    f"select {_FIELDS}, (select type from event where event.seq = seq) from outbox"
    " where kind = ? and (? or phase in ('pending', 'dead')) order by created_at, seq"
)
# If the clock was set back, a delivery must not wait for the old time: one that was tried, or created,
# later than now is due.
_DUE = "(due_at <= :now or coalesce(attempted_at, created_at) > :now)"
_OF_LANE = "phase = 'pending' and kind = :kind and target = :target and url is :url"
_WAITING = (
    f"select kind, target, url, count(*), min(iif({_DUE}, 0, due_at)), min(created_at) from outbox"
    " where phase = 'pending' group by kind, target, url"
)
_MAKE_NEXT_DUE = (
    "update outbox set due_at = :now where id = (select id from outbox"
    f" where {_OF_LANE} and due_at > :now order by attempted_at, seq limit 1)"
)


class Lane(NamedTuple):
    """Deliveries that are made one after the other: those to one target, or to one address."""

    kind: str
    target: str
    url: str | None = None  # of an address that is not in the settings


class Delivery(NamedTuple):
    id: str
    kind: str
    target: str
    url: str | None
    seq: int  # of the event
    created_at: float
    due_at: float
    first_at: float | None  # of the first attempt
    attempted_at: float | None  # of the last attempt
    attempt: int
    state: str  # pending, then delivered, dead (given up) or dropped (not needed)
    error: str | None
    delivered_at: float | None
    hook_type: str | None = None  # the type of its event, in a list for people

    @property
    def lane(self) -> Lane:
        return Lane(self.kind, self.target, self.url)


class LaneQueue(NamedTuple):
    lane: Lane
    pending: int
    due_at: float  # 0: now
    oldest: float


def list_lanes(path: str, now: float, connection: sqlite3.Connection | None = None) -> list[LaneQueue]:
    """Return every lane with pending deliveries. Use `connection` if there is an open one: it takes a
    tenth of the time. Raises SourceError."""
    if connection is None:
        rows = db.read_rows(path, _WAITING, {"now": now})
    else:
        rows = db.select_rows(connection, path, _WAITING, {"now": now})
    return [LaneQueue(Lane(*row[:3]), *row[3:]) for row in rows]


def find_next_due(path: str, lane: Lane, now: float) -> Delivery | None:
    """Return the delivery of this lane that has been due longest; None if none is due. Raises
    SourceError."""
    where = f"where {_OF_LANE} and {_DUE} order by due_at, seq limit 1"
    rows = db.read_rows(path, _SELECT + where, {**lane._asdict(), "now": now})
    return Delivery(*rows[0]) if rows else None


def claim_delivery(path: str, delivery: Delivery, now: float, again_at: float) -> Delivery | None:
    """Count the attempt that the caller is about to make. If the caller dies, the next attempt is at
    `again_at`. Return None if the delivery is not pending any more. Raises SourceError."""
    with db.transaction(path) as connection:
        connection.execute(
            "update outbox set attempt = attempt + 1, first_at = coalesce(first_at, :now),"
            " attempted_at = :now, due_at = :again where id = :id and phase = 'pending'",
            {"now": now, "again": again_at, "id": delivery.id},
        )
        return _find_pending(connection, delivery.id)


def record_failure(path: str, delivery: Delivery, error: str, again_at: float) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "update outbox set error = ?, due_at = ? where id = ? and phase = 'pending'",
            (error[:ERROR], again_at, delivery.id),
        )


def record_delivered(path: str, delivery: Delivery, now: float, data: Mapping[str, Any]) -> bool:
    """Record success, with its event. Then make the delivery of this lane that was tried longest ago due
    at once: a target that accepts one delivery may accept the next."""
    with db.transaction(path) as connection:
        if not _end(connection, delivery, "delivered", now, **data):
            return False
        connection.execute(_MAKE_NEXT_DUE, {**delivery.lane._asdict(), "now": now})
        return True


def record_dead(path: str, delivery: Delivery, now: float, error: str) -> bool:
    """Record that we gave up, with its event."""
    with db.transaction(path) as connection:
        return _end(connection, delivery, "dead", now, error=error)


def record_dropped(path: str, delivery: Delivery, now: float, why: str) -> bool:
    """Record that the delivery is not needed any more, with its event."""
    with db.transaction(path) as connection:
        return _end(connection, delivery, "dropped", now, why=why)


def abandon_lane(path: str, lane: Lane, before: float, now: float, why: str) -> int:
    """Give up the deliveries from before this moment to a target that does not exist. Return how
    many."""
    with db.transaction(path) as connection:
        rows = connection.execute(
            _SELECT + "where " + _OF_LANE + " and created_at < :before",
            {**lane._asdict(), "before": before},
        ).fetchall()
        return sum(_end(connection, Delivery(*row), "dead", now, error=why) for row in rows)


def retry_deliveries(path: str, ids: list[str], now: float) -> int:
    """Make these deliveries due now and count their attempts from 0, also of those that we gave up.
    Return how many there were."""
    with db.transaction(path) as connection:
        return sum(
            connection.execute(
                "update outbox set phase = 'pending', attempt = 0, first_at = null, attempted_at = null,"
                " due_at = ? where id = ? and phase <> 'delivered'",
                (now, id_),
            ).rowcount
            for id_ in ids
        )


def list_deliveries(path: str, kind: str, *, all_of_them: bool = False) -> list[tuple[Delivery, str]]:
    """Return each delivery with the type of its event, oldest first. Without `all_of_them` only those
    that are pending or dead."""
    rows = db.read_rows(path, _LISTED, (kind, all_of_them))
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
    """Record the end of a delivery. Return False if it was not pending any more."""
    error = error[:ERROR] if error else None
    cursor = connection.execute(
        "update outbox set phase = ?, error = ?, delivered_at = ? where id = ? and phase = 'pending'",
        (state, error, now if state == "delivered" else None, delivery.id),
    )
    if cursor.rowcount != 1:
        return False
    data = {"target": delivery.target, "delivery": delivery.id, "attempt": delivery.attempt, **data}
    if error:
        data["error"] = error
    _append_event(connection, delivery, ENDS[delivery.kind][state], now, data)
    return True


def _append_event(
    connection: sqlite3.Connection, delivery: Delivery, kind: str, now: float, data: dict[str, Any]
) -> None:
    """Append an event with the subject of the delivered event, so that the history of that session shows
    it."""
    row = connection.execute(
        'select type, adapter, subject, "group" from event where seq = ?', (delivery.seq,)
    ).fetchone()
    of, adapter, subject, group = row or (None, None, None, None)
    data["of"] = {"seq": delivery.seq, "type": of}
    event = Event(
        type=kind,
        seen_at=now,
        at=now,
        adapter=adapter,
        subject=subject,
        group=group,
        body={"data": data},
    )
    journal.append_event(connection, event)


def _find_pending(connection: sqlite3.Connection, id_: str) -> Delivery | None:
    row = connection.execute(_SELECT + "where id = ? and phase = 'pending'", (id_,)).fetchone()
    return Delivery(*row) if row is not None else None


# Targets: the settings of webhooks and notifications, as the trigger needs them

# The outcomes that the words of `notify.NAME.on` mean. An unknown outcome counts as finished.
OUTCOMES = {"finished": ("completed", "interrupted", "unknown"), "failed": ("failed", "killed")}
TargetRow = tuple[str, str, str, str | None, str | None, str | None]
_TARGETS = "select kind, name, events, adapters, groups, outcomes from target"


def sync_targets(
    path: str, webhooks: Mapping[str, Webhook], notify: Mapping[str, Notify], *, daemon: bool = False
) -> bool:
    """Write the targets of the settings into the table. Return True if it changed. Raises SourceError.

    Only processes with the variable have the webhook of the environment in their settings. So only the
    daemon, which delivers to that webhook, removes it. Deliveries to a target that was removed stay
    pending for a day, in case it comes back.
    """
    rows = {
        *(_webhook_row(webhook) for webhook in webhooks.values()),
        *(_notify_row(target) for target in notify.values()),
    }
    with db.transaction(path) as connection:
        stored = set(connection.execute(_TARGETS))
        stale = {
            row
            for row in stored - rows
            if daemon or not _is_of_environment(row) or _has_target(rows, row)
        }
        _write_targets(connection, stale, rows - stored)
        return bool(stale or rows - stored)


def list_targets(path: str) -> set[tuple[str, str]]:
    """Return kind and name of each target. Raises SourceError."""
    with db.transaction(path) as connection:
        return set(connection.execute("select kind, name from target"))


def _write_targets(
    connection: sqlite3.Connection, stale: Iterable[TargetRow], fresh: Iterable[TargetRow]
) -> None:
    connection.executemany("delete from target where kind = ? and name = ?", [row[:2] for row in stale])
    connection.executemany("insert into target values (?, ?, ?, ?, ?, ?)", list(fresh))


def _is_of_environment(row: TargetRow) -> bool:
    return row[:2] == ("webhook", ENVIRONMENT)


def _has_target(rows: Iterable[TargetRow], row: TargetRow) -> bool:
    return any(other[:2] == row[:2] for other in rows)


def _webhook_row(webhook: Webhook) -> TargetRow:
    filters = (_encode_words(webhook.adapters.value), _encode_words(webhook.groups.value), None)
    return ("webhook", webhook.name, json.dumps(webhook.events.value), *filters)


def _notify_row(target: Notify) -> TargetRow:
    on = target.on.value
    outcomes = [outcome for word in on for outcome in OUTCOMES.get(word, ())]
    events = [
        *(["session.waiting"] if "waiting" in on else []),
        *(["session.stopped"] if outcomes else []),
    ]
    filters = (
        _encode_words(target.adapters.value),
        _encode_words(target.groups.value),
        _encode_words(outcomes),
    )
    return ("notify", target.name, json.dumps(events), *filters)


def _encode_words(words: Iterable[str]) -> str | None:
    return json.dumps(list(words)) if words else None


# Notifications: their last results, and whether one is a repetition

# SQLite takes the other columns from the row of the maximum.
_LAST = (
    "select json_extract(body, '$.data.target') as target, max(seq), type, at, seen_at, adapter,"
    " subject, \"group\", body from event where type glob 'notify.*' group by target"
)
_PENDING = (
    "select target, count(*) from outbox where kind = 'notify' and phase = 'pending' group by target"
)


def read_last_results(path: str) -> dict[str, Event]:
    """Return the event of the last notification of each target. Raises SourceError."""
    rows = db.read_table(path, "event", _LAST)
    return {target: journal.event_of_row(row) for target, *row in rows}


def count_pending(path: str) -> dict[str, int]:
    """Return the number of pending notifications of each target. Raises SourceError."""
    return dict(db.read_table(path, "outbox", _PENDING))


# `unknown` and `identified` do not change what a session waits for: they are skipped here.
_AROUND = (
    "select seq, type, at, json_extract(body, '$.session.waiting_for') from event"
    " where adapter is ? and subject is ? and type glob 'session.*'"
    " and type not in ('session.unknown', 'session.identified')"
)


def find_later_type(path: str, event: Event) -> str | None:
    """Return the type of the last event of the same session after this one; None if there is none.
    Raises SourceError."""
    rows = _existing_rows(path, f"{_AROUND} and seq > ? order by seq desc limit 1", *_position(event))
    return rows[0][1] if rows else None


def has_notified(path: str, target: str, event: Event) -> bool:
    """Return True if this target was already notified of the same wait, and the session did not change
    since. Raises SourceError."""
    rows = _existing_rows(path, f"{_AROUND} and seq < ? order by seq desc limit 1", *_position(event))
    if not rows:
        return False
    seq, kind, at, waiting_for = rows[0]
    is_same_wait = (event.body.get("session") or {}).get("waiting_for") == waiting_for
    is_same_time = at is None or event.at is None or at == event.at
    is_repetition = kind == "session.waiting" and is_same_wait and is_same_time
    return is_repetition and _is_delivered(path, target, seq)


def _is_delivered(path: str, target: str, seq: int) -> bool:
    query = (
        "select 1 from outbox where kind = 'notify' and target = ? and seq = ? and phase = 'delivered'"
    )
    return bool(_existing_rows(path, query, target, seq))


def _position(event: Event) -> tuple[object, ...]:
    return event.adapter, event.subject, event.seq


def _existing_rows(path: str, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    with db.open_reader(path) as database:
        if database is None:
            raise Gone(path, "no such file")
        return database.rows(query, parameters)
