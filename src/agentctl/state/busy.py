"""Wait for another writer of our database, or say which process blocks it.

A writer holds the write lock for microseconds, so we wait. A writer that is suspended in the middle
(Ctrl-Z, SIGSTOP) holds the lock until it is continued or killed: then we fail early and name it. SQLite
does not say which process has the lock; the kernel does.
"""

from __future__ import annotations

import _sqlite3 as sqlite3  # see system/sqlite
import os
import time

from agentctl.errors import SourceError, Temporary
from agentctl.light_typing import Callable, NamedTuple
from agentctl.system import files, proc
from agentctl.system.file_holders import read_file_locks
from agentctl.system.proc import ProcessIdentity
from agentctl.system.procfs import Entry

SLICE = 1.0  # seconds of waiting before we look for the holder, and between two such looks
BEAT = 0.005  # seconds between two tries
SUSPENDED = "T"  # by a signal; a traced process ("t") continues in a moment
DAEMON = "agentctl-daemon"  # the name of its process


class Holder(NamedTuple):
    identity: ProcessIdentity
    comm: str
    is_suspended: bool

    @property
    def label(self) -> str:
        return f"{self.comm}, pid {self.identity.pid}"


def retry_while_busy(act: Callable[[], object], path: str, seconds: float) -> None:
    """Call `act` until the database is not busy. Raises sqlite3.OperationalError when the time is over,
    and Temporary if the holder is suspended in two looks: many processes are for a moment."""
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
            holder = find_holder(path)
            if holder is not None and holder.is_suspended and holder == before:
                raise _suspended_error(holder, path)
            before, look_at = holder, time.monotonic() + SLICE
        time.sleep(BEAT)


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def begin_write(connection: sqlite3.Connection, path: str) -> None:
    """Begin a write transaction. Wait as long as the connection's timeout allows, in slices."""
    (milliseconds,) = connection.execute("pragma busy_timeout").fetchone()
    seconds = milliseconds / 1000
    connection.execute(f"pragma busy_timeout = {int(min(seconds, SLICE) * 1000)}")
    try:
        retry_while_busy(lambda: connection.execute("begin immediate"), path, seconds)
    finally:
        connection.execute(f"pragma busy_timeout = {milliseconds}")


def busy_error(path: str) -> Temporary:
    """Return the error for a wait that took too long. It names the holder if we can see it."""
    holder = find_holder(path)
    who = f"{holder.label}," if holder is not None else "another program"
    return Temporary(path, f"{who} has held it for too long")


def find_holder(path: str) -> Holder | None:
    """Return the process that has the write lock now. None: no process has it, or none that we may
    see."""
    ours = {_inode(path), _inode(f"{path}-shm")} - {None}
    for lock in read_file_locks():
        if lock.inode not in ours or (lock.kind, lock.mode) != ("POSIX", "WRITE"):
            continue
        try:
            process = proc.read_process(lock.pid, proc.read_boot_id())
            with Entry(process.identity) as entry:
                opened = {target for _, target in entry.links("fd")}
        except SourceError:  # it ended meanwhile, or belongs to another user
            continue
        if any(target.startswith(os.path.realpath(path)) for target in opened):
            return Holder(process.identity, process.comm, process.state == SUSPENDED)
    return None


def _inode(path: str) -> int | None:
    try:
        return files.read_status(path).st_ino
    except SourceError:
        return None


def _suspended_error(holder: Holder, path: str) -> Temporary:
    resume = f"kill -CONT {holder.identity.pid}"
    hint = f"{resume}, or: agentctl daemon restart" if holder.comm == DAEMON else resume
    return Temporary(path, f"locked by {holder.label}, which is suspended", hint)
