"""Writes launch notes, each in one transaction: any of them may be the last thing this process does."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable

from agentctl.store import db, locks
from agentctl.truth.model import Exit, HookRun, Launch
from agentctl.truth.procfs import namespace


def begin(path: str, launch: Launch, *, force: bool = False) -> None:
    """The note and the lock on its directory, in one step. Raises Refused where somebody holds it."""
    with db.transaction(path) as connection:
        if launch.cwd is not None:
            locks.take(connection, launch.cwd, launch.id, launch.identity, force=force)
        _insert(connection, launch)


def learned(path: str, note: Launch) -> None:
    """Its session's id, and the process that runs it."""
    with db.transaction(path) as connection:
        connection.execute(
            "update launch set session_id = ?, boot = ?, pid = ?, start = ? where id = ?",
            (note.session_id, *note.identity, note.id),
        )
        locks.pass_on(connection, note.id, note.identity)


def claim_end(path: str, launch_id: str) -> bool:
    """Whether the caller is the one who finishes this launch: true once, for one of all who ask."""
    with db.transaction(path) as connection:
        told = connection.execute(
            "update launch set finished_at = ? where id = ? and finished_at is null",
            (time.time(), launch_id),
        )
        return told.rowcount == 1


def ended(path: str, launch_id: str, how: Exit) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "update launch set ended_at = ?, exit_code = ? where id = ?", (how.at, how.code, launch_id)
        )


def expired(path: str, launch_id: str) -> None:
    """Its time was over, and it is being ended for that."""
    with db.transaction(path) as connection:
        connection.execute(
            "update launch set detail = json_set(detail, '$.expired_at', ?) where id = ?",
            (time.time(), launch_id),
        )


def hook_ran(path: str, launch_id: str, run: HookRun) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "update launch set detail ="  # without an array to add to, json_set adds nothing
            " json_set(json_insert(detail, '$.hooks', json('[]')), '$.hooks[#]', json(?)) where id = ?",
            (json.dumps(list(run)), launch_id),
        )


def forget(path: str, launch_ids: Iterable[str], patience: float = db.PATIENCE) -> None:
    with db.transaction(path, patience) as connection:
        for launch_id in launch_ids:
            connection.execute("delete from launch where id = ?", (launch_id,))
            connection.execute("delete from lock where launch = ?", (launch_id,))


def _insert(connection: sqlite3.Connection, launch: Launch) -> None:
    detail = {
        "namespace": launch.namespace
        or namespace(),  # in another one, nobody can tell that its process is dead
        "adapter": launch.adapter,
        "cwd": launch.cwd,
        "model": launch.model,
        "worktree": launch.worktree,
        "on_complete": launch.on_complete,
        "hooks": launch.hooks,
    }
    connection.execute(
        'insert or replace into launch (id, boot, pid, start, session_id, name, "group", spec, meta,'
        " detail, created_at, ended_at, exit_code) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            launch.id,
            *launch.identity,
            launch.session_id,
            launch.name,
            launch.group,
            launch.spec,
            json.dumps(dict(launch.meta)),
            json.dumps({name: value for name, value in detail.items() if value}),
            launch.created_at if launch.created_at is not None else time.time(),
            launch.ended.at if launch.ended else None,
            launch.ended.code if launch.ended else None,
        ),
    )
