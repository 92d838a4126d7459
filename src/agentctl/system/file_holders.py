"""Which processes hold a file: those that have locked it, or have it open to write.

This recognises a process by what it does, if its name says nothing.
"""

from __future__ import annotations

import os

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError
from agentctl.light_typing import Iterable, Iterator, NamedTuple
from agentctl.system.proc import Process
from agentctl.system.procfs import read_system_file

LOCKS = "/proc/locks"
# SQLite's log and its shared index: a process that only reads a database has these open to write.
BESIDE_A_DATABASE = ("-shm", "-wal")


class FileLock(NamedTuple):
    """One lock that a process holds. The device is left out: on btrfs it differs from the one in stat.
    So a match by inode is a hint, to be checked against the descriptors of that process."""

    kind: str  # "POSIX", "FLOCK", …
    mode: str  # "READ" or "WRITE"
    pid: int
    inode: int


def read_file_locks() -> list[FileLock]:
    """Return all locks that the kernel shows. The list is also empty if this kernel has no /proc/locks.
    Raises SourceError."""
    try:
        table = read_system_file(LOCKS)
    except (Gone, Forbidden):
        return []
    return [lock for line in table.split(b"\n") if (lock := _parse_lock(line)) is not None]


def _parse_lock(line: bytes) -> FileLock | None:
    """Parse `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`; None for `1: -> …`, which waits for
    it."""
    fields = line.decode("ascii", "replace").split()
    if len(fields) < 6 or fields[1] == "->" or not fields[4].isdecimal():
        return None
    inode = fields[5].rpartition(":")[2]
    if not inode.isdecimal() or int(fields[4]) == 0:  # its holder is in another pid namespace
        return None
    return FileLock(kind=fields[1], mode=fields[3], pid=int(fields[4]), inode=int(inode))


def find_lock_holders() -> dict[int, set[int]]:
    """Return the pids of the holders, by the inode of the locked file."""
    holders: dict[int, set[int]] = {}
    for lock in read_file_locks():
        holders.setdefault(lock.inode, set()).add(lock.pid)
    return holders


def find_writers(processes: Iterable[Process], roots: Iterable[str]) -> Iterator[tuple[Process, str]]:
    """Yield each process that has a file in one of these directories open to write, with its path. Skip
    the processes that we may not look into. Raises Exhausted."""
    prefixes = tuple(os.path.realpath(root).rstrip("/") + "/" for root in roots)
    mine = os.getpid()
    for process in processes:
        try:
            if process.pid == mine or not process.is_alive:
                continue
            for path in process.list_own_files():
                if (
                    path.startswith(prefixes)
                    and not path.endswith(BESIDE_A_DATABASE)
                    and process.has_open_to_write(path)
                ):
                    yield process, path
                    break
        except Exhausted:
            raise
        except SourceError:  # the process has ended, or may not be looked into
            continue
