"""Writes launch notes, each in one transaction: any of them may be the last thing this process does."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Container, Iterable

from agentctl.state import db, locks, telling
from agentctl.system.proc import namespace
from agentctl.truth.model import Exit, HookRun, Launch

CLOCKS_DIFFER = 0.5  # seconds: less is how two clocks run apart by themselves
_BURNS = "select 1 from fuse where phase = 'burning' and directory is not null limit 1"


def begin(
    path: str,
    launch: Launch,
    *,
    force: bool = False,
    timeout: float | None = None,
    cancels_fuses: bool = True,
) -> None:
    """The note, the lock on its directory and its timeout, in one step; what burns there burns no more.
    Raises Refused where somebody holds it."""
    others = locks.unnoted(path) if launch.cwd is not None and not force else []
    with db.transaction(path) as connection:
        if launch.cwd is not None:
            locks.take(connection, launch.cwd, launch.id, launch.identity, force=force, others=others)
            if cancels_fuses and connection.execute(_BURNS).fetchone() is not None:
                from agentctl.state import (
                    fuses,  # most launches meet none: here as below, only who needs it pays
                )

                fuses.cancel_in(connection, locks.real_path(launch.cwd), launch.id)
        _insert(connection, launch)
        telling.launch(connection, "launch.started", launch.id, launch.created_at)
        if timeout:
            from agentctl.state import fuses

            fuses.light_timeout(connection, launch, timeout)


def learned(path: str, note: Launch) -> None:
    """Its session's id, and the process that runs it."""
    with db.transaction(path) as connection:
        known = connection.execute("select session_id from launch where id = ?", (note.id,)).fetchone()
        connection.execute(
            "update launch set session_id = ?, boot = ?, pid = ?, start = ? where id = ?",
            (note.session_id, *note.identity, note.id),
        )
        locks.pass_on(connection, note.id, note.identity)
        if known is not None and known[0] != note.session_id:
            telling.launch(connection, "launch.identified", note.id)


def claim_end(path: str, launch_id: str, how: Exit | None = None) -> bool:
    """Whether the caller is the one who finishes this launch: true once, for one of all who ask. How it
    ended is noted with that; None: nobody knows."""
    from agentctl.state import fuses

    with db.transaction(path) as connection:
        claimed = connection.execute(
            "update launch set finished_at = ?, ended_at = ?, exit_code = ?"
            " where id = ? and finished_at is null",
            (time.time(), how.at if how else None, how.code if how else None, launch_id),
        )
        if claimed.rowcount != 1:
            return False
        if how is not None and how.clock_back > CLOCKS_DIFFER:
            connection.execute(
                "update launch set detail = json_set(detail, '$.clock_back', ?) where id = ?",
                (how.clock_back, launch_id),
            )
        code, at = (how.code, how.at) if how else (None, None)
        telling.launch(connection, "launch.ended", launch_id, at, exit_code=code)
        fuses.end_timeout(connection, launch_id, "its agent has ended")
        return True


def expired(path: str, launch_id: str) -> None:
    """Its time was over, and it is being ended for that. Told once, however often that is begun."""
    with db.transaction(path) as connection:
        first = connection.execute(
            "update launch set detail = json_set(detail, '$.expired_at', ?)"
            " where id = ? and json_extract(detail, '$.expired_at') is null",
            (time.time(), launch_id),
        )
        if first.rowcount:
            telling.launch(connection, "launch.expired", launch_id)


def hook_ran(path: str, launch_id: str, run: HookRun) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "update launch set detail ="  # without an array to add to, json_set adds nothing
            " json_set(json_insert(detail, '$.hooks', json('[]')), '$.hooks[#]', json(?)) where id = ?",
            (json.dumps(list(run)), launch_id),
        )
        telling.hook(connection, launch_id, run)


def failed(path: str, launch_id: str, why: str) -> None:
    """It never came to be a session: nothing is left of it but the word that it failed."""
    from agentctl.state import fuses

    with db.transaction(path) as connection:
        telling.launch(connection, "launch.failed", launch_id, why=why)
        fuses.burn_on(connection, launch_id)
        _forget(connection, launch_id)


def forget(
    path: str,
    launch_ids: Iterable[str],
    patience: float = db.PATIENCE,
    never_began: Container[str] = (),
) -> None:
    """An end that was not told yet is told first: its launcher or its shim was killed, or the disk was
    full."""
    from agentctl.state import fuses

    with db.transaction(path, patience) as connection:
        for launch_id in launch_ids:
            row = connection.execute(
                "select finished_at from launch where id = ?", (launch_id,)
            ).fetchone()
            if row == (None,) and launch_id in never_began:
                telling.launch(connection, "launch.failed", launch_id, why="nothing was started")
                fuses.burn_on(connection, launch_id)
            elif row == (None,):
                telling.launch(connection, "launch.ended", launch_id, exit_code=None)
            _forget(connection, launch_id)


def _forget(connection: sqlite3.Connection, launch_id: str) -> None:
    from agentctl.state import fuses

    locks.drop(connection, launch_id)
    fuses.end_timeout(connection, launch_id, "its launch is forgotten")
    connection.execute("delete from fuse where launch = ?", (launch_id,))
    connection.execute("delete from launch where id = ?", (launch_id,))


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
        "prompt": launch.prompt,
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
