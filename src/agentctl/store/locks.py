"""Locks on directories. One that a launch took is held only while its agent's process lives, which
is asked of the kernel at the moment of asking: a dead owner is a free directory, and nobody has to
clean up. One that a person took is held until released, or until its time is over."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any, NamedTuple

from agentctl.errors import Gone, NotFound, Refused, UsageError
from agentctl.store import db
from agentctl.truth import files, procfs
from agentctl.truth.model import ProcessIdentity
from agentctl.truth.sqlite_ro import Database

_ALL = (
    'select directory, launch, boot, pid, start, namespace, "by", reason, created_at, expires_at'
    " from lock"
)


class Lock(NamedTuple):
    directory: str  # its real path
    launch_id: str  # empty: a person's own
    identity: ProcessIdentity | None  # None: a person's own
    namespace: str | None  # of pids, that the identity belongs to
    by: str | None
    reason: str | None
    created_at: float
    expires_at: float | None

    @property
    def held(self) -> bool:
        if self.identity is None:
            return self.expires_at is None or self.expires_at > time.time()
        if self.namespace != _namespace() and self.identity.boot == procfs.boot_id():
            return True  # its owner is where we cannot look: for all we know, it lives
        process = procfs.current(self.identity)
        return process is not None and process.alive


def held(path: str) -> list[Lock]:
    """Every lock that is held at this moment. Raises SourceError."""
    try:
        files.status(path)
    except Gone:
        return []
    with Database(path) as database:
        if not database.columns("lock"):  # made by an agentctl that knew none
            return []
        locks = [_lock(row) for row in database.rows(_ALL)]
    return [lock for lock in locks if lock.held]


def holders(path: str, directory: str) -> list[Lock]:
    real = os.path.realpath(directory)
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
    real = os.path.realpath(directory)
    in_the_way = _held_there(connection, real)
    if in_the_way and not force:
        raise refusal(in_the_way[0])
    connection.execute(
        "insert into lock (directory, launch, boot, pid, start, namespace, created_at)"
        " values (?, ?, ?, ?, ?, ?, ?)",
        (real, launch_id, *identity, _namespace(), time.time()),
    )


def pass_on(connection: sqlite3.Connection, launch_id: str, identity: ProcessIdentity) -> None:
    connection.execute(
        "update lock set boot = ?, pid = ?, start = ? where launch = ?", (*identity, launch_id)
    )


def acquire(path: str, directory: str, by: str | None, reason: str | None, ttl: float | None) -> Lock:
    """For a person. Raises Refused where somebody holds it."""
    if not os.path.isdir(directory):
        raise UsageError(f"not a directory: {directory}")
    real, now = os.path.realpath(directory), time.time()
    lock = Lock(real, "", None, None, by, reason, now, now + ttl if ttl is not None else None)
    with db.transaction(path) as connection:
        in_the_way = _held_there(connection, real)
        if in_the_way:
            raise refusal(in_the_way[0])
        connection.execute(
            'insert into lock (directory, "by", reason, created_at, expires_at) values (?, ?, ?, ?, ?)',
            (real, by, reason, now, lock.expires_at),
        )
    return lock


def release(path: str, directory: str, *, force: bool) -> list[Lock]:
    """Those that are released. A launch's own only with `force`: it goes with its agent."""
    real = os.path.realpath(directory)
    with db.transaction(path) as connection:
        found = _held_there(connection, real)
        if not found:
            raise NotFound(f"nobody holds {real}", "agentctl lock list shows what is held")
        automatic = [lock for lock in found if lock.launch_id]
        if automatic and not force:
            pid = automatic[0].identity.pid if automatic[0].identity else "?"
            raise Refused(
                f"{real} is held by a launched agent, pid {pid}, and is free when that ends",
                "agentctl stop ends it; --force takes the lock from under it",
            )
        connection.execute("delete from lock where directory = ?", (real,))
    return found


def refusal(lock: Lock) -> Refused:
    """Names who holds it: session, pid, age, and how to go on."""
    age = _age(time.time() - lock.created_at)
    if lock.identity is None:
        who = f"{lock.by or 'a person'}" + (f" ({lock.reason})" if lock.reason else "")
        return Refused(
            f"{lock.directory} is locked by {who} since {age}",
            f"agentctl unlock {lock.directory}, or --force to launch beside it",
        )
    pid = lock.identity.pid
    return Refused(
        f"{lock.directory} is in use by launch {lock.launch_id}, pid {pid}, since {age}",
        f"agentctl status pid:{pid} tells more; agentctl stop pid:{pid} ends it; --force goes beside it",
    )


def _held_there(connection: sqlite3.Connection, real: str) -> list[Lock]:
    """Those held; those of the dead go, so that the table holds no more than there are agents."""
    found = [_lock(row) for row in connection.execute(f"{_ALL} where directory = ?", (real,))]
    for lock in found:
        if not lock.held:
            connection.execute(
                "delete from lock where directory = ? and launch = ?", (real, lock.launch_id)
            )
    return [lock for lock in found if lock.held]


def _lock(row: tuple[Any, ...]) -> Lock:
    directory, launch, boot, pid, start, namespace, by, reason, created, expires = row
    identity = ProcessIdentity(boot, pid, start) if boot is not None else None
    return Lock(directory, launch, identity, namespace, by, reason, created, expires)


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
