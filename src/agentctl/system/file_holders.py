"""Who holds a file, by the kernel's word: the process that has locked it, or has it open to write.

This recognises a process by what it does, where its name tells nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError
from agentctl.system.proc import Process
from agentctl.system.proc_entry import read_system_file

LOCKS = "/proc/locks"
# SQLite's log and its shared index: whoever only reads a database has these open to write.
BESIDE_A_DATABASE = ("-shm", "-wal")


class FileLock(NamedTuple):
    """One that is held. The device is left out: on btrfs it is not the one that stat shows. So a match
    by inode is a hint, to be checked against the descriptors of that process."""

    kind: str  # "POSIX", "FLOCK", …
    mode: str  # "READ" or "WRITE"
    pid: int
    inode: int


def file_locks() -> list[FileLock]:
    """All locks that the kernel shows. An empty list may also mean that this kernel has no /proc/locks.
    Raises SourceError."""
    try:
        table = read_system_file(LOCKS)
    except (Gone, Forbidden):
        return []
    return [lock for line in table.split(b"\n") if (lock := _parsed(line)) is not None]


def _parsed(line: bytes) -> FileLock | None:
    """`1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF`; `1: -> …` is one that waits for it."""
    fields = line.decode("ascii", "replace").split()
    if len(fields) < 6 or fields[1] == "->" or not fields[4].isdecimal():
        return None
    inode = fields[5].rpartition(":")[2]
    if not inode.isdecimal() or int(fields[4]) == 0:  # its holder is in another pid namespace
        return None
    return FileLock(kind=fields[1], mode=fields[3], pid=int(fields[4]), inode=int(inode))


def lock_holders() -> dict[int, set[int]]:
    """Pids by the inode that they have locked."""
    found: dict[int, set[int]] = {}
    for lock in file_locks():
        found.setdefault(lock.inode, set()).add(lock.pid)
    return found


def writers_below(processes: Iterable[Process], roots: Iterable[str]) -> Iterator[tuple[Process, str]]:
    """Processes that have a file in one of these directories open to write, and which. Those that we may
    not look into are passed over: their names are all there is. Raises Exhausted."""
    prefixes = tuple(os.path.realpath(root).rstrip("/") + "/" for root in roots)
    mine = os.getpid()
    for process in processes:
        try:
            if process.pid == mine or not process.alive:
                continue
            for path in process.opened_files():
                if (
                    path.startswith(prefixes)
                    and not path.endswith(BESIDE_A_DATABASE)
                    and process.writes(path)
                ):
                    yield process, path
                    break
        except Exhausted:
            raise
        except SourceError:  # it has ended meanwhile, or may not be looked into
            continue
