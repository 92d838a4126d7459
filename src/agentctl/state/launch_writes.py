"""Write launch notes. Each change is one transaction: this process may die after any of them."""

from __future__ import annotations

import json
import sqlite3
import time

from agentctl.light_typing import Any, Container, Iterable
from agentctl.state import db, journal, locks
from agentctl.system.proc import pid_namespace
from agentctl.truth.event import Event
from agentctl.truth.model import Exit, HookRun, Launch

CLOCKS_DIFFER = 0.5  # seconds: two clocks may drift apart by less than this
_HAS_FUSES = "select 1 from fuse where phase = 'burning' and directory is not null limit 1"
_ABOUT = 'select name, session_id, "group", detail, pid from launch where id = ?'


def begin_launch(
    path: str,
    launch: Launch,
    *,
    force: bool = False,
    timeout: float | None = None,
    cancels_fuses: bool = True,
) -> None:
    """Write the note of a launch, lock its directory, set its timeout and cancel the fuses on its
    directory, all in one transaction. Raises Refused if the directory is locked, SourceError."""
    others = locks.list_without_note(path) if launch.cwd is not None and not force else []
    with db.transaction(path) as connection:
        if launch.cwd is not None:
            locks.take_lock(
                connection, launch.cwd, launch.id, launch.identity, force=force, others=others
            )
            if cancels_fuses and connection.execute(_HAS_FUSES).fetchone() is not None:
                from agentctl.state import fuses  # lazy, here and below: most launches need no fuses

                fuses.cancel_in_directory(connection, locks.real_path(launch.cwd), launch.id)
        _insert_note(connection, launch)
        append_launch_event(connection, "launch.started", launch.id, launch.created_at)
        if timeout:
            from agentctl.state import fuses

            fuses.set_timeout(connection, launch, timeout)


def record_session(path: str, note: Launch) -> None:
    """Record the id of the session and the process that runs it. Raises SourceError."""
    with db.transaction(path) as connection:
        row = connection.execute("select session_id from launch where id = ?", (note.id,)).fetchone()
        connection.execute(
            "update launch set session_id = ?, boot = ?, pid = ?, start = ? where id = ?",
            (note.session_id, *note.identity, note.id),
        )
        locks.move_locks(connection, note.id, note.identity)
        if row is not None and row[0] != note.session_id:
            append_launch_event(connection, "launch.identified", note.id)


def claim_end(path: str, launch_id: str, how: Exit | None = None) -> bool:
    """Record the end of a launch. Return True for the first caller only: it does the work at the end of
    the launch. `how` is None if the exit code is unknown. Raises SourceError."""
    from agentctl.state import fuses

    with db.transaction(path) as connection:
        cursor = connection.execute(
            "update launch set finished_at = ?, ended_at = ?, exit_code = ?"
            " where id = ? and finished_at is null",
            (time.time(), how.at if how else None, how.code if how else None, launch_id),
        )
        if cursor.rowcount != 1:
            return False
        if how is not None and how.clock_back > CLOCKS_DIFFER:
            connection.execute(
                "update launch set detail = json_set(detail, '$.clock_back', ?) where id = ?",
                (how.clock_back, launch_id),
            )
        code, at = (how.code, how.at) if how else (None, None)
        append_launch_event(connection, "launch.ended", launch_id, at, exit_code=code)
        fuses.cancel_timeout(connection, launch_id, "its agent has ended")
        return True


def record_expiry(path: str, launch_id: str) -> None:
    """Record that the timeout of this launch is over. Only the first call appends the event. Raises
    SourceError."""
    with db.transaction(path) as connection:
        cursor = connection.execute(
            "update launch set detail = json_set(detail, '$.expired_at', ?)"
            " where id = ? and json_extract(detail, '$.expired_at') is null",
            (time.time(), launch_id),
        )
        if cursor.rowcount:
            append_launch_event(connection, "launch.expired", launch_id)


def record_hook(path: str, launch_id: str, run: HookRun) -> None:
    """Record one run of a hook, with its event. Raises SourceError."""
    with db.transaction(path) as connection:
        connection.execute(
            "update launch set detail ="  # json_set appends only to an array that exists
            " json_set(json_insert(detail, '$.hooks', json('[]')), '$.hooks[#]', json(?)) where id = ?",
            (json.dumps(list(run)), launch_id),
        )
        append_hook_event(connection, launch_id, run)


def record_failure(path: str, launch_id: str, why: str) -> None:
    """Record that the launch failed: append the event and delete the note. Raises SourceError."""
    from agentctl.state import fuses

    with db.transaction(path) as connection:
        append_launch_event(connection, "launch.failed", launch_id, why=why)
        fuses.rearm_fuses(connection, launch_id)
        _delete_note(connection, launch_id)


def forget_launches(
    path: str,
    launch_ids: Iterable[str],
    patience: float = db.PATIENCE,
    never_began: Container[str] = (),
) -> None:
    """Delete the notes of these launches. If the end of one was never recorded (its shim was killed, the
    disk was full), append its event first. Raises SourceError."""
    from agentctl.state import fuses

    with db.transaction(path, patience) as connection:
        for launch_id in launch_ids:
            row = connection.execute(
                "select finished_at from launch where id = ?", (launch_id,)
            ).fetchone()
            if row == (None,) and launch_id in never_began:
                append_launch_event(connection, "launch.failed", launch_id, why="nothing was started")
                fuses.rearm_fuses(connection, launch_id)
            elif row == (None,):
                append_launch_event(connection, "launch.ended", launch_id, exit_code=None)
            _delete_note(connection, launch_id)


def _delete_note(connection: sqlite3.Connection, launch_id: str) -> None:
    from agentctl.state import fuses

    locks.drop_locks(connection, launch_id)
    fuses.cancel_timeout(connection, launch_id, "its launch is forgotten")
    connection.execute("delete from fuse where launch = ?", (launch_id,))
    connection.execute("delete from launch where id = ?", (launch_id,))


def _insert_note(connection: sqlite3.Connection, launch: Launch) -> None:
    detail = {
        # from another pid namespace, we cannot prove that the process is dead
        "namespace": launch.namespace or pid_namespace(),
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
            launch.exit.at if launch.exit else None,
            launch.exit.code if launch.exit else None,
        ),
    )


def append_launch_event(
    connection: sqlite3.Connection, kind: str, launch_id: str, at: float | None = None, **data: Any
) -> None:
    """Append an event about a launch, inside the caller's transaction. Do nothing if it has no note."""
    row = connection.execute(_ABOUT, (launch_id,)).fetchone()
    if row is None:
        return
    name, session_id, group, raw, pid = row
    detail = json.loads(raw)
    data = {"launch": launch_id, "name": name, "cwd": detail.get("cwd"), "pid": pid, **data}
    now = time.time()
    event = Event(
        type=kind,
        seen_at=now,
        at=now if at is None else at,
        adapter=detail.get("adapter"),
        subject=session_id,
        group=group,
        body={"data": data},
    )
    journal.append_event(connection, event)


def append_hook_event(connection: sqlite3.Connection, launch_id: str, run: HookRun) -> None:
    append_launch_event(
        connection, "hook.succeeded" if run.code == 0 else "hook.failed", launch_id, **run._asdict()
    )
