"""What a process that goes on may remember between two looks: what files said, and what never changes
about a process. Never what a session is, and never whether anything is alive.

A file is the same as long as its inode, size and both its times are. One that was touched within the
grain of its time stamps may change once more and show the same ones: it is read again until it is older.

Of a process two things are kept. Its directory in /proc stays open: the kernel ties the handle to the
process, not to the number, and whatever is read through it after the process is gone fails. And its
environment, which the kernel shows as it was at exec: for the same process (boot, pid, start) and the
same image of it in memory, whose place is random at each exec; where it is not, nothing is kept. All
else may change at any moment without a trace (state, directory, arguments, the name of its binary, what
it holds open) and is read at every look.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentctl.errors import Forbidden, Gone
from agentctl.system import clock, files, proc, sqlite
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.system.proc_entry import (
    CHUNK,
    PAGE,
    STAT_CAP,
    Entry,
    Stat,
    parse_stat,
    read_stat,
    translated,
)
from agentctl.system.sqlite import Answered

if TYPE_CHECKING:
    from agentctl.truth.look import Look

Said = TypeVar("Said")
MOST = 4096  # files: more live sessions than a machine has
KEPT_OPEN = ("cmdline", "stat")
MOST_HELD = 1024  # descriptors, three for each process
MOST_DATABASES, MOST_ANSWERS = 32, 64
# Bytes. The stack of a program that is not placed at random ends right below the top of memory; the
# chance that a random one comes that near is one in a million.
NEAR_THE_TOP = 1 << 24

Mark = tuple[int, int, int, int, int]
Read = Callable[..., Any]
Stamp = tuple[object, ...]


class Memory(Protocol):
    """Remembers what a file said, as plain values, by its path and a stamp that is another one as soon
    as the file says anything else. Never what a session is."""

    def recall(self, path: str, stamp: Stamp) -> Any: ...
    def remember(self, path: str, stamp: Stamp, changed: float, said: Any) -> None: ...


class Warm:
    """For one question at a time; adapters that are late may still be at an earlier one."""

    def __init__(self, most: int = MOST, held: int | None = None) -> None:
        self._most = most
        self._said: dict[tuple[Read, str], tuple[Mark, Any]] = {}
        self._answered: dict[str, tuple[Stamp, Answered]] = {}
        self._changing = _thread.allocate_lock()
        self._known: dict[int, _Kept] = {}  # by pid
        self.binaries: dict[object, str] = {}  # names of the programs that were seen, to sieve by
        self._free = _affordable() if held is None else held  # directories that may still be opened

    def __len__(self) -> int:
        return len(self._said)

    # files

    def read(self, path: str, read: Callable[[str, Look], Said], look: Look) -> Said:
        """What this reader finds in the file, or has found in it as it is. Raises SourceError."""
        status = files.status(path)  # before it is read: what is written meanwhile shows the next time
        mark = _mark(status)
        known = self._said.get((read, path))
        if known is not None and known[0] == mark:
            recalled: Said = known[1]
            return recalled
        before = look.complaints
        said = read(path, look)
        settled = clock.settled(status.st_mtime) and clock.settled(status.st_ctime)
        if settled and look.complaints == before:  # what has a problem is read, and told, again
            self._remember((read, path), (mark, said))
        return said

    def _remember(self, key: tuple[Read, str], said: tuple[Mark, Any]) -> None:
        with self._changing:
            self._said[key] = said
            if len(self._said) > self._most:
                del self._said[next(iter(self._said))]

    def answered(self, path: str) -> Answered | None:
        """What a database has answered before, as long as it says the same; None: ask it."""
        found = sqlite.stamp(path)
        if found is None or not clock.settled(found[1]):
            self._answered.pop(path, None)
            return None
        known = self._answered.get(path)
        if known is None or known[0] != found[0] or len(known[1]) > MOST_ANSWERS:
            known = self._answered[path] = (found[0], {})
            if len(self._answered) > MOST_DATABASES:
                del self._answered[next(iter(self._answered))]
        return known[1]

    # processes

    def read_table(self) -> dict[int, Process]:
        """Every process visible from here, each read now."""
        boot, table = proc.boot_id(), {}
        known: dict[int, _Kept] = {}
        for pid in proc.pids():
            kept = self._known.get(pid)
            try:
                raw = _line_of(pid, kept)
            except (Gone, Forbidden):  # see proc.read_table
                continue
            if kept is None or kept.raw != raw:  # most have done nothing since: the same to the last bit
                kept = _same(kept, ProcessIdentity(boot, pid, (stat := parse_stat(raw)).start))
                kept.raw, kept.stat = raw, stat
            known[pid] = kept
            process = table[pid] = proc.described(_Known, kept.identity, kept.stat)
            process.kept, process.warm = kept, self
        self._free += (len(KEPT_OPEN) + 1) * sum(
            kept.entry is not None for pid, kept in self._known.items() if known.get(pid) is not kept
        )
        self._known = known
        return dict(table)

    def held(self, kept: _Kept) -> Entry:
        """Its directory, opened once if we can afford it. Raises Gone."""
        if kept.entry is None and self._free > 0:
            kept.entry = Held(kept.identity)
            self._free -= len(KEPT_OPEN) + 1
        return kept.entry or Entry(kept.identity)


class _Kept:
    """Of one process."""

    __slots__ = ("entry", "environ", "identity", "image", "raw", "stat")

    stat: Stat

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self.raw = b""  # the line that it was parsed from
        self.entry: Held | None = None
        self.image = b""  # that the environment was read of
        self.environ: Mapping[str, str] = {}


def _line_of(pid: int, kept: _Kept | None) -> bytes:
    """What the kernel says now of whoever has this number. Raises Gone."""
    if kept is not None and kept.entry is not None:
        try:
            return kept.entry.read("stat", STAT_CAP)
        except Gone:  # the number may be another one's by now
            pass
    return read_stat(pid)


def _same(kept: _Kept | None, identity: ProcessIdentity) -> _Kept:
    """What is kept of the process with this number, if it is still the same one."""
    return kept if kept is not None and kept.identity == identity else _Kept(identity)


class Held(Entry):
    """A process's directory that stays open while anybody may read through it, and with it the files in
    it that every look reads. What is read from their beginning is made by the kernel at that moment."""

    __slots__ = ("_open",)

    def __init__(self, identity: ProcessIdentity) -> None:
        """Raises Gone."""
        super().__init__(identity)
        self._open: dict[str, int] = {}
        super().__enter__()

    def __enter__(self) -> Entry:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __del__(self) -> None:
        super().__exit__()
        for fd in getattr(self, "_open", {}).values():
            os.close(fd)

    def read(self, name: str, cap: int) -> bytes:
        if name not in KEPT_OPEN:
            return super().read(name, cap)
        try:
            fd = self._open.get(name, -1)
            if fd < 0:
                fd = self._open[name] = os.open(name, os.O_RDONLY, dir_fd=self._fd)
            found = os.pread(fd, CHUNK, 0)
        except OSError as error:
            raise translated(error, f"{self.identity.address}/{name}") from error
        return found if len(found) < PAGE else super().read(name, cap)


class _Known(Process):
    """A process as it is now, whose directory may be open already."""

    __slots__ = ("kept", "warm")

    kept: _Kept
    warm: Warm

    def entry(self) -> Entry:
        return self.warm.held(self.kept)

    def environ(self) -> Mapping[str, str]:
        kept = self.kept
        if kept.image and kept.image == self.image:
            return kept.environ
        found = super().environ()
        if is_random(self.image):
            kept.environ, kept.image = found, self.image
        return found


def _affordable() -> int:
    """A quarter of what we may have open."""
    from resource import RLIMIT_NOFILE, getrlimit

    return min(MOST_HELD, getrlimit(RLIMIT_NOFILE)[0] // 4)


def is_random(image: bytes) -> bool:
    """Whether another exec would lie elsewhere. `image` ends with where the environment does."""
    end = int(image.rpartition(b" ")[2] or 0)
    return end > 0 and (1 << end.bit_length()) - end > NEAR_THE_TOP


def _mark(status: os.stat_result) -> Mark:
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )  # fmt: skip
