"""Events of what we do ourselves: launches, hooks, locks. Each is appended by whoever changes the row
that it is about, in the same transaction. What sessions do is told by the observer alone."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from agentctl.state import journal
from agentctl.state.lock import Lock
from agentctl.truth.event import Event
from agentctl.truth.model import HookRun

_ABOUT = 'select name, session_id, "group", detail, pid from launch where id = ?'


def launch(
    connection: sqlite3.Connection, kind: str, launch_id: str, at: float | None = None, **data: Any
) -> None:
    """Of a launch that has its row. One whose row is gone is nobody's to tell of."""
    row = connection.execute(_ABOUT, (launch_id,)).fetchone()
    if row is None:
        return
    name, session_id, group, raw, pid = row
    detail = json.loads(raw)
    known = {"launch": launch_id, "name": name, "cwd": detail.get("cwd"), "pid": pid, **data}
    now = time.time()
    at = now if at is None else at
    told = Event(kind, now, at, detail.get("adapter"), session_id, group, {"data": known})
    journal.append(connection, told)


def hook(connection: sqlite3.Connection, launch_id: str, run: HookRun) -> None:
    launch(connection, "hook.succeeded" if run.code == 0 else "hook.failed", launch_id, **run._asdict())


def lock(connection: sqlite3.Connection, kind: str, given: Lock, why: str | None = None) -> None:
    data = {
        "directory": journal.plain(given.directory),
        "launch": given.launch_id or None,
        "session_id": given.session_id,
        "by": given.by,
        "reason": given.reason,
        "expires_at": given.expires_at,
        "why": why,
    }
    now = time.time()
    at = given.expires_at if kind == "lock.expired" else now
    journal.append(connection, Event(kind, now, at, None, given.directory, None, {"data": data}))
