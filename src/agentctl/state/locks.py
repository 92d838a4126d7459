"""Locks on directories, one row each.

Whether a lock is held is asked of the kernel or the clock, never stored. A launch holds its lock while
its agent lives; the user's lock holds until it is released or expires. A dead owner frees the directory.
"""

from __future__ import annotations

import os
import sqlite3
import time

from agentctl.durations import format_age, format_time_left
from agentctl.errors import NotFound, Refused, UsageError
from agentctl.light_typing import Any, NamedTuple, Sequence
from agentctl.state import db, journal, launches
from agentctl.state.db import path_to_text, text_to_path
from agentctl.system import files, proc
from agentctl.system.owner import Owner
from agentctl.system.proc import ProcessIdentity, pid_namespace
from agentctl.truth.event import Event
from agentctl.truth.launches import ShimNote, read_shim_notes

__all__ = [
    "Lock",
    "acquire_lock",
    "drop_locks",
    "find_holders",
    "list_held",
    "list_without_note",
    "make_refusal",
    "move_locks",
    "read_locks",
    "real_path",
    "release_locks",
    "sweep_locks",
    "take_lock",
]  # fmt: skip

_ALL = (
    'select directory, launch, lock.boot, lock.pid, lock.start, namespace, "by", reason,'
    " lock.created_at, expires_at, session_id, name"
    " from lock left join launch on launch.id = lock.launch"
)


class Lock(NamedTuple):
    directory: str  # its real path
    launch_id: str  # empty: the user's own lock
    identity: ProcessIdentity | None  # the lock ends with this process; None: the user's own lock
    namespace: str | None  # the pid namespace of the identity
    by: str | None
    reason: str | None
    created_at: float
    expires_at: float | None
    session_id: str | None = None  # of the launch, if it is known
    name: str | None = None
    has_note: bool = True  # False: the launch note was deleted; we know the lock from the shim

    @property
    def is_held(self) -> bool:
        """True unless the lock has expired or its process is proven gone."""
        if self.identity is None:
            return self.expires_at is None or self.expires_at > time.time()
        return Owner(self.identity, self.namespace).may_live

    @property
    def is_foreign(self) -> bool:
        """Return True if the owner may live where we cannot look, as in another container."""
        return self.identity is not None and Owner(self.identity, self.namespace).is_foreign

    @property
    def holder(self) -> str:
        """The holder, as text for people."""
        if self.identity is None:
            return (self.by or "a person") + (f" ({self.reason})" if self.reason else "")
        who = f"session {self.session_id}" if self.session_id else f"launch {self.launch_id}"
        name = f" ({self.name})" if self.name else ""
        place = " in another container" if self.is_foreign else ""
        return f"{who}{name}, pid {self.identity.pid}{place}"


def list_held(path: str) -> list[Lock]:
    """Return every lock that is held now, oldest first. Raises SourceError."""
    return [*(lock for lock in read_locks(path) if lock.is_held), *list_without_note(path)]


def read_locks(path: str) -> list[Lock]:
    """Return every lock in the database, held or not. Raises SourceError."""
    return [_lock(row) for row in db.read_table(path, "lock", f"{_ALL} order by lock.created_at")]


def list_without_note(path: str) -> list[Lock]:
    """Return the locks of live agents whose launch notes were lost, as when the state directory was
    deleted. Their shims still know them. Shims in containers do not count: there, the same path is
    another directory. Raises SourceError."""
    home = os.path.realpath(os.path.dirname(path))
    shims = [
        shim
        for shim in read_shim_notes(proc.read_table())
        if shim.state == home and not proc.may_be_elsewhere(shim.identity, shim.namespace)
    ]
    # Read the notes after the shims: the note of a launch exists before its shim does.
    noted = {row.id for row in launches.read_launch_rows(path)} if shims else set()
    locks = [_lock_of_shim(shim) for shim in shims if shim.launch_id not in noted]
    return [lock for lock in locks if lock.is_held]


def find_holders(path: str, directory: str) -> list[Lock]:
    """Return the locks that are held on this directory. Raises SourceError."""
    real = real_path(directory)
    return [lock for lock in list_held(path) if lock.directory == real]


def take_lock(
    connection: sqlite3.Connection,
    directory: str,
    launch_id: str,
    identity: ProcessIdentity,
    *,
    force: bool,
    others: Sequence[Lock] = (),
) -> None:
    """Lock a directory for a launch, inside its transaction. `others` are held locks that are not in the
    table. Raises Refused if the directory is locked, except with `force`."""
    real = real_path(directory)
    holders = [*_sweep_directory(connection, real), *(o for o in others if o.directory == real)]
    if holders and not force:
        raise make_refusal(holders[0], "--force launches beside it")
    now = time.time()
    connection.execute(
        "insert into lock (directory, launch, boot, pid, start, namespace, created_at)"
        " values (?, ?, ?, ?, ?, ?, ?)",
        (path_to_text(real), launch_id, *identity, pid_namespace(), now),
    )
    lock = Lock(
        directory=real,
        launch_id=launch_id,
        identity=identity,
        namespace=None,
        by=None,
        reason=None,
        created_at=now,
        expires_at=None,
    )
    _append_event(connection, "lock.acquired", lock)


def drop_locks(connection: sqlite3.Connection, launch_id: str) -> None:
    """Delete the locks of a launch, inside the transaction that deletes its note."""
    rows = connection.execute(f"{_ALL} where launch = ?", (launch_id,)).fetchall()
    _delete(connection, [_lock(row) for row in rows], "its launch was forgotten")


def move_locks(connection: sqlite3.Connection, launch_id: str, identity: ProcessIdentity) -> None:
    """Make this process the owner of the launch's locks, inside the caller's transaction."""
    connection.execute(
        "update lock set boot = ?, pid = ?, start = ? where launch = ?", (*identity, launch_id)
    )


def acquire_lock(
    path: str, directory: str, by: str | None, reason: str | None, ttl: float | None
) -> Lock:
    """Lock a directory for the user. Raises Refused if it is locked, UsageError, SourceError."""
    if not os.path.isdir(directory):
        raise UsageError(f"not a directory: {directory}")
    if ttl is not None and ttl <= 0:
        raise UsageError("--ttl must be more than 0", "example: --ttl 2h")
    real, now = real_path(directory), time.time()
    lock = Lock(
        directory=real,
        launch_id="",
        identity=None,
        namespace=None,
        by=by,
        reason=reason,
        created_at=now,
        expires_at=now + ttl if ttl is not None else None,
    )
    others = [lock for lock in list_without_note(path) if lock.directory == real]
    with db.transaction(path) as connection:
        holders = [*_sweep_directory(connection, real), *others]
        if holders:
            raise make_refusal(holders[0], _force_hint(holders[0]))
        connection.execute(
            'insert into lock (directory, "by", reason, created_at, expires_at) values (?, ?, ?, ?, ?)',
            (path_to_text(real), by, reason, now, lock.expires_at),
        )
        _append_event(connection, "lock.acquired", lock)
    return lock


def release_locks(path: str, directory: str, *, force: bool) -> list[Lock]:
    """Release the user's lock on a directory; with `force` also the locks of launches, which otherwise
    end with their agents. Return the released locks. Raises NotFound, Refused."""
    real = real_path(directory)
    not_locked = NotFound(f"{real} is not locked", "see which are held: agentctl lock list")
    others = [lock for lock in list_without_note(path) if lock.directory == real]
    if others:  # only the shim knows this lock: there is no row to delete
        raise make_refusal(others[0])
    if not files.is_present(path):
        raise not_locked
    with db.transaction(path) as connection:
        locks = _sweep_directory(connection, real)
        released = [lock for lock in locks if force or not lock.launch_id]
        if not locks:
            raise not_locked
        if not released:
            raise make_refusal(locks[0], _force_hint(locks[0]))
        _delete(connection, released, "released by a person")
    return released


def sweep_locks(path: str, *, patience: float = db.PATIENCE) -> list[Lock]:
    """Delete the locks that are not held any more. Return them. Raises SourceError."""
    if all(lock.is_held for lock in read_locks(path)):
        return []
    with db.transaction(path, patience) as connection:
        free = [lock for lock in map(_lock, connection.execute(_ALL)) if not lock.is_held]
        _delete(connection, free, "its agent has ended")
    return free


def make_refusal(lock: Lock, hint: str = "") -> Refused:
    """Return the error for a directory that is locked. It names the holder and what to do."""
    since = format_age(time.time() - lock.created_at)
    if lock.identity is None:
        message = f"{lock.directory} is locked by {lock.holder}, for {since} now"
        if lock.expires_at is not None:
            message += f", and free in {format_time_left(lock.expires_at - time.time())}"
        ways = [f"agentctl unlock {lock.directory} releases it"]
    else:
        message = f"{lock.directory} is in use by {lock.holder}, for {since} now"
        ways = [f"agentctl stop {lock.session_id or f'pid:{lock.identity.pid}'} ends it"]
        if lock.is_foreign:
            message, ways = f"{message}: agentctl cannot see from here whether it lives", []
    return Refused(message, "; ".join([*ways, *filter(None, [hint])]))


def _force_hint(lock: Lock) -> str:
    if not lock.launch_id or not lock.has_note:
        return ""
    return f"agentctl unlock --force {lock.directory} takes the lock from it"


def real_path(directory: str) -> str:
    """Return the path of this directory without symbolic links. Raises SourceError, UsageError."""
    try:
        return os.path.realpath(directory)
    except OSError as error:  # a relative path, and our working directory was deleted
        raise files.translate_error(error, directory) from error
    except ValueError as error:
        raise UsageError(f"not a path: {directory!r}: {error}") from error


def _sweep_directory(connection: sqlite3.Connection, real: str) -> list[Lock]:
    """Return the locks that are held on this directory, and delete the others."""
    rows = connection.execute(f"{_ALL} where directory = ?", (path_to_text(real),))
    locks = [(lock, lock.is_held) for lock in map(_lock, rows)]
    _delete(connection, [lock for lock, is_held in locks if not is_held], "its agent has ended")
    return [lock for lock, is_held in locks if is_held]


def _delete(connection: sqlite3.Connection, locks: list[Lock], why: str) -> None:
    for lock in locks:
        connection.execute(
            "delete from lock where directory = ? and launch = ?",
            (path_to_text(lock.directory), lock.launch_id),
        )
        if lock.expires_at is not None and not lock.is_held:
            _append_event(connection, "lock.expired", lock, "its time is over")
        else:
            _append_event(connection, "lock.released", lock, why)


def _lock_of_shim(shim: ShimNote) -> Lock:
    return Lock(
        directory=shim.directory,
        launch_id=shim.launch_id,
        identity=shim.identity,
        namespace=shim.namespace,
        by=None,
        reason=None,
        created_at=shim.created_at,
        expires_at=None,
        session_id=shim.session_id,
        name=shim.name,
        has_note=False,
    )


def _lock(row: tuple[Any, ...]) -> Lock:
    directory, launch, boot, pid, start, *rest = row
    identity = ProcessIdentity(boot, pid, start) if boot is not None else None
    return Lock(text_to_path(directory), launch, identity, *rest)


def _append_event(connection: sqlite3.Connection, kind: str, lock: Lock, why: str | None = None) -> None:
    data = {
        "directory": journal.escape_bytes(lock.directory),
        "launch": lock.launch_id or None,
        "session_id": lock.session_id,
        "by": lock.by,
        "reason": lock.reason,
        "expires_at": lock.expires_at,
        "why": why,
    }
    now = time.time()
    event = Event(
        type=kind,
        seen_at=now,
        at=lock.expires_at if kind == "lock.expired" else now,
        subject=lock.directory,
        body={"data": data},
    )
    journal.append_event(connection, event)
