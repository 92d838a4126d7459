"""Who is to be told of events, as the settings say: a trigger reads it whenever an event is written.
Names and filters only; addresses and secrets stay where the person wrote them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping

from agentctl.config.targets import ENVIRONMENT, Notify, Webhook
from agentctl.state import db

# What a person who wants to be told that it `finished` means; how it ended cannot always be told.
OUTCOMES = {"finished": ("completed", "interrupted", "unknown"), "failed": ("failed", "killed")}
Row = tuple[str, str, str, str | None, str | None, str | None]
_SELECT = "select kind, name, events, adapters, groups, outcomes from target"


def sync(
    path: str, webhooks: Mapping[str, Webhook], notify: Mapping[str, Notify], *, daemon: bool = False
) -> bool:
    """Makes the table say what the settings say, and tells whether it did not. Raises SourceError.

    The one that the environment makes is in the settings of whoever has the variable: only the daemon,
    which has to deliver to it, takes it away. What is still to be delivered to one that is gone waits
    for its return, for a day.
    """
    wanted = {
        *(_webhook(hook) for hook in webhooks.values()),
        *(_notify(one) for one in notify.values()),
    }
    with db.transaction(path) as connection:
        there = set(connection.execute(_SELECT))
        stale = {
            row for row in there - wanted if daemon or not _of_environment(row) or _named(row, wanted)
        }
        _write(connection, stale, wanted - there)
        return bool(stale or wanted - there)


def known(path: str) -> set[tuple[str, str]]:
    """Kind and name of each. Raises SourceError."""
    with db.transaction(path) as connection:
        return set(connection.execute("select kind, name from target"))


def _write(connection: sqlite3.Connection, stale: Iterable[Row], fresh: Iterable[Row]) -> None:
    connection.executemany("delete from target where kind = ? and name = ?", [row[:2] for row in stale])
    connection.executemany("insert into target values (?, ?, ?, ?, ?, ?)", list(fresh))


def _of_environment(row: Row) -> bool:
    return row[:2] == ("webhook", ENVIRONMENT)


def _named(row: Row, among: Iterable[Row]) -> bool:
    return any(other[:2] == row[:2] for other in among)


def _webhook(hook: Webhook) -> Row:
    filters = (_listed(hook.adapters.value), _listed(hook.groups.value), None)
    return ("webhook", hook.name, json.dumps(hook.events.value), *filters)


def _notify(one: Notify) -> Row:
    on = one.on.value
    ends = [outcome for word in on for outcome in OUTCOMES.get(word, ())]
    events = [*(["session.waiting"] if "waiting" in on else []), *(["session.stopped"] if ends else [])]
    filters = (_listed(one.adapters.value), _listed(one.groups.value), _listed(ends))
    return ("notify", one.name, json.dumps(events), *filters)


def _listed(words: Iterable[str]) -> str | None:
    return json.dumps(list(words)) if words else None
