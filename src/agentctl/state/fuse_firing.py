"""Firing a fuse: one process claims it, does and confirms each action, and settles it.

    burning ── claim ──▶ firing ── confirm, for each action ──▶ settle ──▶ fired, or failed

Each step is one transaction, and the process may die after any of them. If the holder of a claim is
proven dead, another process takes the claim and does only the actions that are not confirmed. Emitting
an event and queueing a webhook happen in the transaction that confirms them, so they happen once.
"""

from __future__ import annotations

import json
import os
import sqlite3

from agentctl.light_typing import Any, Mapping
from agentctl.state import db, fuses
from agentctl.state.fuses import FAILED, FIRED, FIRING, SET, Action, Claim, Fuse, Moment
from agentctl.system import proc
from agentctl.system.clock import format_rfc3339

Result = Mapping[str, Any]


def make_claim() -> Claim:
    """Return the claim of this process."""
    identity = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    return Claim(identity, proc.pid_namespace())


def claim_fuse(path: str, fuse_id: str, by: Claim, moment: Moment | None = None) -> Fuse | None:
    """Return the fuse if this process may fire it, else None. Only one process may; two threads of one
    process are not kept apart here. Raises SourceError."""
    moment = moment or fuses.read_clocks()
    with db.transaction(path) as connection:
        fuse = fuses.find_fuse(connection, fuse_id)
        if fuse is None or not _may_claim(fuse, by, moment):
            return None
        connection.execute(
            "update fuse set phase = ?, claimed_at = ?, claimed_by = ? where id = ?",
            (FIRING, moment.at, json.dumps([*by.identity, by.namespace]), fuse_id),
        )
        return fuse._replace(state=FIRING, claimed_at=moment.at, claim=by)


def confirm_action(path: str, fuse: Fuse, index: int, result: Result) -> Fuse | None:
    """Record the result of one action. Return None if another process has the fuse now. Raises
    SourceError."""
    with db.transaction(path) as connection:
        return _confirm(connection, fuse, index, result)


def emit_event(path: str, fuse: Fuse, index: int) -> Fuse | None:
    """Append the event that this action names, and confirm the action. Return None if another process
    has the fuse now. Raises SourceError."""
    moment, name = fuses.read_clocks(), fuse.actions[index].what
    with db.transaction(path) as connection:
        result = {"do": "emit", "ok": True, "at": format_rfc3339(moment.at)}
        confirmed_fuse = _confirm(connection, fuse, index, result)
        if confirmed_fuse is not None:
            fuses.append_event(connection, f"user.{name}", fuse, moment)
        return confirmed_fuse


def settle_fuse(path: str, fuse: Fuse) -> Fuse | None:
    """Settle a fuse whose actions are all confirmed, except for its webhooks: they are queued here,
    because they carry all results. Return None if another process has the fuse now. Raises
    SourceError."""
    moment = fuses.read_clocks()
    with db.transaction(path) as connection:
        current = _read_own_fuse(connection, fuse)
        if current is None:
            return None
        deliveries = {
            index: os.urandom(16).hex()
            for index, action in enumerate(current.actions)
            if action.do == "webhook" and current.results[index] is None
        }
        results = tuple(
            {"do": "webhook", "ok": True, "at": format_rfc3339(moment.at), "delivery": deliveries[index]}
            if index in deliveries
            else result
            for index, result in enumerate(current.results)
        )
        succeeded = all(result is not None and result["ok"] for result in results)
        state = FIRED if succeeded else FAILED
        settled_fuse = current._replace(state=state, settled_at=moment.at, results=results)
        seq = fuses.append_event(
            connection, f"fuse.{state}", settled_fuse, moment, results=list(results)
        )
        for index, delivery in deliveries.items():
            _queue_webhook(connection, delivery, current.actions[index], seq, moment)
        connection.execute(
            "update fuse set phase = ?, settled_at = ?, results = ? where id = ?",
            (state, moment.at, json.dumps(results), fuse.id),
        )
        return settled_fuse


def _may_claim(fuse: Fuse, by: Claim, moment: Moment) -> bool:
    if fuse.state == SET:
        return fuse.seconds_left(moment) <= 0
    return fuse.state == FIRING and (fuse.claim == by or fuse.is_abandoned)


def _confirm(connection: sqlite3.Connection, fuse: Fuse, index: int, result: Result) -> Fuse | None:
    current = _read_own_fuse(connection, fuse)
    if current is None:
        return None
    results = (*current.results[:index], result, *current.results[index + 1 :])
    connection.execute("update fuse set results = ? where id = ?", (json.dumps(results), fuse.id))
    return current._replace(results=results)


def _read_own_fuse(connection: sqlite3.Connection, fuse: Fuse) -> Fuse | None:
    """Return the fuse as it is stored now; None if the claim on it is another one."""
    current = fuses.find_fuse(connection, fuse.id)
    if current is None or (current.state, current.claim) != (FIRING, fuse.claim):
        return None
    return current


def _queue_webhook(
    connection: sqlite3.Connection, delivery: str, action: Action, seq: int, moment: Moment
) -> None:
    """Queue a delivery to an address or to a target of the settings. The deliverer looks the target up.
    If that target also wants every fuse event, it gets this one only once."""
    target, url = (action.what, None) if action.is_named_target else ("fuse", action.what)
    if action.is_named_target:
        connection.execute(
            "delete from outbox where kind = 'webhook' and target = ? and url is null and seq = ?",
            (target, seq),
        )
    connection.execute(
        "insert into outbox (id, kind, target, url, seq, created_at, due_at)"
        " values (?, 'webhook', ?, ?, ?, ?, ?)",
        (delivery, target, url, seq, moment.at, moment.at),
    )
