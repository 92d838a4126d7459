"""What happens to a fuse that is due: one process claims it, confirms each action, and settles it.

    burning ── claim ──▶ firing ── confirm, for each action ──▶ settle ──▶ fired, or failed

Each step is one transaction, and any of them may be the last thing that process does. A claim whose
holder is proven dead is the next one's to take; it finds what was confirmed and does only the rest. To
emit an event and to queue a webhook are confirmed by the transaction that does them: they happen once.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from typing import Any

from agentctl.state import db, fuse_rows, fuses
from agentctl.state import fuse as clocks
from agentctl.state.fuse import BURNING, FAILED, FIRED, FIRING, Action, Claim, Fuse, Moment
from agentctl.system import proc
from agentctl.system.clock import rfc3339

Result = Mapping[str, Any]


def ourselves() -> Claim:
    identity = proc.read_process(os.getpid(), proc.boot_id()).identity
    return Claim(identity, proc.namespace())


def claim(path: str, fuse_id: str, by: Claim, moment: Moment | None = None) -> Fuse | None:
    """The fuse, if it is this process that fires it: of all who ask, one. Two threads of one process
    are not told apart here."""
    moment = moment or clocks.now()
    with db.transaction(path) as connection:
        found = fuse_rows.one(connection, fuse_id)
        if found is None or not _ours_to_take(found, by, moment):
            return None
        known = found._replace(state=FIRING, claimed_at=moment.at, claim=by)
        connection.execute(
            "update fuse set phase = ?, claimed_at = ?, claimed_by = ? where id = ?",
            (FIRING, moment.at, _written(by), fuse_id),
        )
        return known


def confirm(path: str, fuse: Fuse, index: int, result: Result) -> Fuse | None:
    """Notes what came of one action. None: the fuse is not ours any more."""
    with db.transaction(path) as connection:
        return _confirmed(connection, fuse, index, result)


def emit(path: str, fuse: Fuse, index: int) -> Fuse | None:
    """The event of that name, and the word that it was told."""
    moment, name = clocks.now(), fuse.actions[index].what
    with db.transaction(path) as connection:
        known = _confirmed(connection, fuse, index, {"do": "emit", "ok": True, "at": rfc3339(moment.at)})
        if known is not None:
            fuses.tell(connection, f"user.{name}", fuse, moment)
        return known


def settle(path: str, fuse: Fuse) -> Fuse | None:
    """All is confirmed but the webhooks, which are to tell of all of it. None: not ours any more."""
    moment = clocks.now()
    with db.transaction(path) as connection:
        found = _still_ours(connection, fuse)
        if found is None:
            return None
        sent = {
            index: os.urandom(16).hex()
            for index, action in enumerate(found.actions)
            if action.do == "webhook" and found.results[index] is None
        }
        results = tuple(
            {"do": "webhook", "ok": True, "at": rfc3339(moment.at), "delivery": sent[index]}
            if index in sent
            else result
            for index, result in enumerate(found.results)
        )
        fine = all(result is not None and result["ok"] for result in results)
        known = found._replace(state=FIRED if fine else FAILED, settled_at=moment.at, results=results)
        seq = fuses.tell(connection, f"fuse.{known.state}", known, moment, results=list(results))
        for index, delivery in sent.items():
            _queue(connection, delivery, known.actions[index], seq, moment)
        connection.execute(
            "update fuse set phase = ?, settled_at = ?, results = ? where id = ?",
            (known.state, moment.at, json.dumps(results), fuse.id),
        )
        return known


def _ours_to_take(found: Fuse, by: Claim, moment: Moment) -> bool:
    if found.state == BURNING:
        return found.left(moment) <= 0
    return found.state == FIRING and (found.claim == by or found.abandoned)


def _confirmed(connection: sqlite3.Connection, fuse: Fuse, index: int, result: Result) -> Fuse | None:
    found = _still_ours(connection, fuse)
    if found is None:
        return None
    results = (*found.results[:index], result, *found.results[index + 1 :])
    connection.execute("update fuse set results = ? where id = ?", (json.dumps(results), fuse.id))
    return found._replace(results=results)


def _still_ours(connection: sqlite3.Connection, fuse: Fuse) -> Fuse | None:
    found = fuse_rows.one(connection, fuse.id)
    return found if found is not None and (found.state, found.claim) == (FIRING, fuse.claim) else None


def _queue(
    connection: sqlite3.Connection, delivery: str, action: Action, seq: int, moment: Moment
) -> None:
    """To an address, or to a target by its name: what only the settings know is looked up there when it
    is sent. A target that is told of all fuses is told of this one once."""
    target, url = (action.what, None) if action.by_name else ("fuse", action.what)
    if action.by_name:
        connection.execute(
            "delete from outbox where kind = 'webhook' and target = ? and url is null and seq = ?",
            (target, seq),
        )
    connection.execute(
        "insert into outbox (id, kind, target, url, seq, created_at, due_at)"
        " values (?, 'webhook', ?, ?, ?, ?, ?)",
        (delivery, target, url, seq, moment.at, moment.at),
    )


def _written(claim: Claim) -> str:
    return json.dumps([*claim.identity, claim.namespace])
