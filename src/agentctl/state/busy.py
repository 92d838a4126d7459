"""Who keeps us from writing our database, and whether to wait for that.

A writer holds it for microseconds, so we wait. One that was suspended in the middle (Ctrl-Z, SIGSTOP)
holds it until somebody continues or ends it: then we say so soon. SQLite does not tell whose lock it is;
the kernel does.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import NamedTuple

from agentctl.errors import Passing, SourceError
from agentctl.system import files, proc
from agentctl.system.file_holders import file_locks
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc_entry import Entry

SLICE = 1.0  # seconds of waiting, after which we look who holds it
BEAT = 0.005  # seconds between two tries of what does not wait by itself
SUSPENDED = "T"  # by a signal; one that is traced ("t") goes on in a moment
DAEMON = "agentctl-daemon"  # as its process is named


class Holder(NamedTuple):
    identity: ProcessIdentity
    comm: str
    suspended: bool

    @property
    def named(self) -> str:
        return f"{self.comm}, pid {self.identity.pid}"


def patiently(act: Callable[[], object], path: str, seconds: float) -> None:
    """Do it, as soon as the database is free. Raises sqlite3.OperationalError when the time is over,
    Passing for a holder that is suspended: twice in a row, since many are for a moment."""
    now = time.monotonic()
    end, look_at, before = now + seconds, now + SLICE, None
    while True:
        try:
            act()
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= end:
                raise
        if time.monotonic() >= look_at:
            found = holder(path)
            if found is not None and found.suspended and found == before:
                raise _suspended(found, path)
            before, look_at = found, time.monotonic() + SLICE
        time.sleep(BEAT)


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def begin(connection: sqlite3.Connection, path: str) -> None:
    """A transaction that writes. It waits for as long as the connection would, in slices."""
    (milliseconds,) = connection.execute("pragma busy_timeout").fetchone()
    seconds = milliseconds / 1000
    connection.execute(f"pragma busy_timeout = {int(min(seconds, SLICE) * 1000)}")
    try:
        patiently(lambda: connection.execute("begin immediate"), path, seconds)
    finally:
        connection.execute(f"pragma busy_timeout = {milliseconds}")


def too_long(path: str) -> Passing:
    """For who has waited until the end."""
    found = holder(path)
    who = f"{found.named}," if found is not None else "another program"
    return Passing(path, f"{who} has held it for too long")


def holder(path: str) -> Holder | None:
    """Who has this database to itself now. None: nobody, or nobody whom the kernel shows us."""
    ours = {_inode(path), _inode(f"{path}-shm")} - {None}
    for lock in file_locks():
        if lock.inode not in ours or (lock.kind, lock.mode) != ("POSIX", "WRITE"):
            continue
        try:
            process = proc.read_process(lock.pid, proc.boot_id())
            with Entry(process.identity) as entry:
                opened = {target for _, target in entry.links("fd")}
        except SourceError:  # gone meanwhile, or another user's
            continue
        if any(target.startswith(os.path.realpath(path)) for target in opened):
            return Holder(process.identity, process.comm, process.state == SUSPENDED)
    return None


def _inode(path: str) -> int | None:
    try:
        return files.status(path).st_ino
    except SourceError:
        return None


def _suspended(found: Holder, path: str) -> Passing:
    error = Passing(path, f"locked by {found.named}, which is suspended")
    go_on = f"kill -CONT {found.identity.pid}"
    error.hint = f"{go_on}, or: agentctl daemon restart" if found.comm == DAEMON else go_on
    return error
