"""How a fuse is a row."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from agentctl.state import db
from agentctl.state.column import as_path, as_text
from agentctl.state.fuse import Action, Claim, Fuse
from agentctl.system.identity import ProcessIdentity

_ALL = (
    "select fuse.id, directory, coalesce(adapter, json_extract(launch.detail, '$.adapter')),"
    " coalesce(fuse.session_id, launch.session_id), fuse.launch, label, actions, fuse.created_at,"
    " fuse.boot, due_boot, due_at, phase, claimed_at, claimed_by, settled_at, results, reason, cwd,"
    " launch.boot, launch.pid, launch.start, json_extract(launch.detail, '$.namespace'),"
    ' launch."group" from fuse left join launch on launch.id = fuse.launch'
)
_INSERT = (
    "insert into fuse (id, directory, adapter, session_id, launch, label, cwd, actions, created_at,"
    " boot, due_boot, due_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def one(connection: sqlite3.Connection, fuse_id: str) -> Fuse | None:
    return next(iter(within(connection, "where fuse.id = ?", (fuse_id,))), None)


def insert(connection: sqlite3.Connection, fuse: Fuse) -> None:
    connection.execute(
        _INSERT,
        (
            fuse.id,
            as_text(fuse.directory) if fuse.directory is not None else None,
            fuse.adapter,
            fuse.session_id,
            fuse.launch_id,
            fuse.label,
            as_text(fuse.cwd) if fuse.cwd is not None else None,
            json.dumps(fuse.actions),
            fuse.created_at,
            fuse.boot,
            fuse.due_elapsed,
            fuse.due_at,
        ),
    )


def read(path: str, which: str, parameters: Sequence[object]) -> list[Fuse]:
    with db.reader(path) as database:
        if database is None or "cancelled_by" not in database.columns("fuse"):
            return []  # there is none, or an agentctl made it that knew no fuses
        return [_fuse(row) for row in database.rows(f"{_ALL} {which}", parameters)]


def within(connection: sqlite3.Connection, which: str, parameters: Sequence[object]) -> list[Fuse]:
    return [_fuse(row) for row in connection.execute(f"{_ALL} {which}", parameters).fetchall()]


def _fuse(row: tuple[Any, ...]) -> Fuse:
    id_, directory, adapter, session_id, launch, label, actions, created, boot, due_boot, due_at = row[
        :11
    ]
    state, claimed_at, claim, settled_at, results, reason, cwd, *agent, group = row[11:]
    to_do = tuple(Action(*action) for action in json.loads(actions))
    return Fuse(
        id_,
        as_path(directory) if directory is not None else None,
        adapter,
        session_id,
        launch,
        label,
        to_do,
        created,
        boot,
        due_boot,
        due_at,
        state,
        claimed_at,
        _claim(*json.loads(claim)) if claim is not None else None,
        settled_at,
        tuple(json.loads(results)) if results is not None else (None,) * len(to_do),
        reason,
        as_path(cwd) if cwd is not None else None,
        _claim(*agent) if agent[0] is not None else None,
        group,
    )


def _claim(boot: str, pid: int, start: int, namespace: str | None) -> Claim:
    return Claim(ProcessIdentity(boot, pid, start), namespace)
