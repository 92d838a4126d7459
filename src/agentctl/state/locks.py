"""Locks on directories, one row each. `state/lock.py` tells which of them are held: those of launches
while their agent lives, those of people until they are released or their time is over."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

from agentctl.durations import age, left
from agentctl.errors import NotFound, Refused, UsageError
from agentctl.state import db, remains, telling
from agentctl.state.column import as_path, as_text
from agentctl.state.lock import Lock
from agentctl.system import files, proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import namespace
from agentctl.truth import launched

__all__ = [
    "Lock", "acquire", "drop", "held", "holders", "pass_on", "real_path", "refusal", "release", "sweep",
    "take", "unnoted", "written",
]  # fmt: skip

_ALL = (
    'select directory, launch, lock.boot, lock.pid, lock.start, namespace, "by", reason,'
    " lock.created_at, expires_at, session_id, name"
    " from lock left join launch on launch.id = lock.launch"
)


def held(path: str) -> list[Lock]:
    """Every lock that is held at this moment, oldest first. Raises SourceError."""
    return [*(lock for lock in written(path) if lock.held), *unnoted(path)]


def written(path: str) -> list[Lock]:
    """Every row, held or not."""
    with db.reader(path) as database:
        if database is None or not database.columns("lock"):  # made by an agentctl that knew none
            return []
        return [_lock(row) for row in database.rows(f"{_ALL} order by lock.created_at")]


def unnoted(path: str) -> list[Lock]:
    """Those of live agents that were launched from this state directory and whose notes are lost since,
    as where it was deleted: their shims tell. Not those of containers, where the same path is another
    directory. Raises SourceError."""
    home = os.path.realpath(os.path.dirname(path))
    shims = launched.carriers(proc.read_table())
    told = [s for s in shims if s.state == home and not proc.elsewhere(s.identity, s.namespace)]
    # read after the shims: each launch has its note before its shim tells of it
    known = {note.id for note in remains.recorded(path)} if told else set()
    found = [_carried(each) for each in told if each.launch_id not in known]
    return [lock for lock in found if lock.held]


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
    others: Sequence[Lock] = (),
) -> None:
    """For a launch, inside its transaction. With `force` beside whoever holds it. `others`: locks that
    are held and not in the table."""
    real = real_path(directory)
    in_the_way = [*_held_there(connection, real), *(o for o in others if o.directory == real)]
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
    others = [lock for lock in unnoted(path) if lock.directory == real]
    with db.transaction(path) as connection:
        in_the_way = [*_held_there(connection, real), *others]
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
    others = [lock for lock in unnoted(path) if lock.directory == real]
    if others:  # nothing of ours is left to be released
        raise refusal(others[0])
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
    if not lock.launch_id or not lock.noted:
        return ""
    return f"agentctl unlock --force {lock.directory} takes the lock from it"


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


def _carried(told: launched.Carried) -> Lock:
    id_, directory, identity, within = told.launch_id, told.directory, told.identity, told.namespace
    lock = Lock(directory, id_, identity, within, None, None, told.created_at, None)
    return lock._replace(session_id=told.session_id, name=told.name, noted=False)


def _lock(row: tuple[Any, ...]) -> Lock:
    directory, launch, boot, pid, start, within, by, reason, created, expires, session, name = row
    identity = ProcessIdentity(boot, pid, start) if boot is not None else None
    path = as_path(directory)
    return Lock(path, launch, identity, within, by, reason, created, expires, session, name)
