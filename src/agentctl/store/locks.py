"""Locks on directories, one row each. `truth/lock.py` tells which of them are held: those of launches
while their agent lives, those of people until they are released or their time is over."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any

from agentctl.errors import Gone, NotFound, Refused, UsageError
from agentctl.lengths import age, left
from agentctl.store import db, telling
from agentctl.store.column import as_path, as_text
from agentctl.truth import files
from agentctl.truth.lock import Lock
from agentctl.truth.model import ProcessIdentity
from agentctl.truth.procfs import namespace
from agentctl.truth.sqlite_ro import Database

__all__ = [
    "Lock", "acquire", "drop", "held", "holders", "pass_on", "real_path", "refusal", "release", "sweep",
    "take", "written",
]  # fmt: skip

_ALL = (
    'select directory, launch, lock.boot, lock.pid, lock.start, namespace, "by", reason,'
    " lock.created_at, expires_at, session_id, name"
    " from lock left join launch on launch.id = lock.launch"
)


def held(path: str) -> list[Lock]:
    """Every lock that is held at this moment, oldest first. Raises SourceError."""
    return [lock for lock in written(path) if lock.held]


def written(path: str) -> list[Lock]:
    """Every row, held or not."""
    try:
        files.status(path)
    except Gone:
        return []
    with Database(path) as database:
        if not database.columns("lock"):  # made by an agentctl that knew none
            return []
        return [_lock(row) for row in database.rows(f"{_ALL} order by lock.created_at")]


def holders(path: str, directory: str) -> list[Lock]:
    real = real_path(directory)
    return [lock for lock in held(path) if lock.directory == real]


def take(
    connection: sqlite3.Connection,
    directory: str,
    launch_id: str,
    identity: ProcessIdentity,
    *,
    force: bool,
) -> None:
    """For a launch, inside its transaction. With `force` beside whoever holds it."""
    real = real_path(directory)
    in_the_way = _held_there(connection, real)
    if in_the_way and not force:
        raise refusal(in_the_way[0], "--force launches beside it")
    now = time.time()
    connection.execute(
        "insert into lock (directory, launch, boot, pid, start, namespace, created_at)"
        " values (?, ?, ?, ?, ?, ?, ?)",
        (as_text(real), launch_id, *identity, namespace(), now),
    )
    telling.lock(
        connection, "lock.acquired", Lock(real, launch_id, identity, None, None, None, now, None)
    )


def drop(connection: sqlite3.Connection, launch_id: str) -> None:
    """Those of a launch that is forgotten, inside its transaction."""
    rows = connection.execute(f"{_ALL} where launch = ?", (launch_id,)).fetchall()
    _delete(connection, [_lock(row) for row in rows], "its launch was forgotten")


def pass_on(connection: sqlite3.Connection, launch_id: str, identity: ProcessIdentity) -> None:
    connection.execute(
        "update lock set boot = ?, pid = ?, start = ? where launch = ?", (*identity, launch_id)
    )


def acquire(path: str, directory: str, by: str | None, reason: str | None, ttl: float | None) -> Lock:
    """For a person. Raises Refused where somebody holds it."""
    if not os.path.isdir(directory):
        raise UsageError(f"not a directory: {directory}")
    if ttl is not None and ttl <= 0:
        raise UsageError("a lock that is over at once", "example: --ttl 2h")
    real, now = real_path(directory), time.time()
    lock = Lock(real, "", None, None, by, reason, now, now + ttl if ttl is not None else None)
    with db.transaction(path) as connection:
        in_the_way = _held_there(connection, real)
        if in_the_way:
            raise refusal(in_the_way[0], _by_force(in_the_way[0]))
        connection.execute(
            'insert into lock (directory, "by", reason, created_at, expires_at) values (?, ?, ?, ?, ?)',
            (as_text(real), by, reason, now, lock.expires_at),
        )
        telling.lock(connection, "lock.acquired", lock)
    return lock


def release(path: str, directory: str, *, force: bool) -> list[Lock]:
    """Those that are released: a person's own; with `force` also those of launches, which else end
    with their agents. Raises NotFound, Refused."""
    real = real_path(directory)
    nobody = NotFound(f"nobody holds {real}", "agentctl lock list shows what is held")
    if not files.exists(path):
        raise nobody
    with db.transaction(path) as connection:
        found = _held_there(connection, real)
        going = [lock for lock in found if force or not lock.launch_id]
        if not found:
            raise nobody
        if not going:
            raise refusal(found[0], _by_force(found[0]))
        _delete(connection, going, "released by a person")
    return going


def sweep(path: str, *, patience: float = db.PATIENCE) -> list[Lock]:
    """Removes the rows that hold nothing any more: they mean nothing, and need not pile up."""
    if all(lock.held for lock in written(path)):
        return []
    with db.transaction(path, patience) as connection:
        over = [lock for lock in map(_lock, connection.execute(_ALL)) if not lock.held]
        _delete(connection, over, "its agent has ended")
    return over


def refusal(lock: Lock, otherwise: str = "") -> Refused:
    """Names who holds it: session, pid, age, and how to go on."""
    since = age(time.time() - lock.created_at)
    if lock.identity is None:
        told = f"{lock.directory} is locked by {lock.holder}, for {since} now"
        if lock.expires_at is not None:
            told += f", and free in {left(lock.expires_at - time.time())}"
        ways = [f"agentctl unlock {lock.directory} releases it"]
    else:
        told = f"{lock.directory} is in use by {lock.holder}, for {since} now"
        ways = [f"agentctl stop {lock.session_id or f'pid:{lock.identity.pid}'} ends it"]
        if lock.foreign:
            told, ways = f"{told}: whether it lives cannot be told from here", []
    return Refused(told, "; ".join([*ways, *filter(None, [otherwise])]))


def _by_force(lock: Lock) -> str:
    return f"agentctl unlock --force {lock.directory} takes the lock from it" if lock.launch_id else ""


def real_path(directory: str) -> str:
    """One name for one directory, however it was reached."""
    try:
        return os.path.realpath(directory)
    except OSError as error:  # a relative one, and we stand in a directory that was deleted
        raise files.translated(error, directory) from error
    except ValueError as error:
        raise UsageError(f"no path: {directory!r}: {error}") from error


def _held_there(connection: sqlite3.Connection, real: str) -> list[Lock]:
    """Those held; those of the dead go, so that the table holds no more than there are agents."""
    rows = connection.execute(f"{_ALL} where directory = ?", (as_text(real),))
    found = [(lock, lock.held) for lock in map(_lock, rows)]
    _delete(connection, [lock for lock, is_held in found if not is_held], "its agent has ended")
    return [lock for lock, is_held in found if is_held]


def _delete(connection: sqlite3.Connection, locks: list[Lock], why: str) -> None:
    for lock in locks:
        connection.execute(
            "delete from lock where directory = ? and launch = ?",
            (as_text(lock.directory), lock.launch_id),
        )
        over = lock.expires_at is not None and not lock.held
        telling.lock(
            connection,
            "lock.expired" if over else "lock.released",
            lock,
            "its time is over" if over else why,
        )


def _lock(row: tuple[Any, ...]) -> Lock:
    directory, launch, boot, pid, start, within, by, reason, created, expires, session, name = row
    identity = ProcessIdentity(boot, pid, start) if boot is not None else None
    path = as_path(directory)
    return Lock(path, launch, identity, within, by, reason, created, expires, session, name)
