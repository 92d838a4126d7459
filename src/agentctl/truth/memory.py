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
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentctl.truth import files, procfs
from agentctl.truth.model import ProcessIdentity
from agentctl.truth.procdir import Entry
from agentctl.truth.procfs import Process

if TYPE_CHECKING:
    from agentctl.truth.look import Look

Said = TypeVar("Said")
GRAIN = 1.0  # seconds, as in `store/cache.py`
MOST = 4096  # files: more live sessions than a machine has
MOST_HELD = 512  # directories of processes
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
        self._changing = _thread.allocate_lock()
        self._known: dict[ProcessIdentity, _Kept] = {}
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
        young = max(status.st_mtime, status.st_ctime) > time.time() - GRAIN
        if not young and look.complaints == before:  # what has a problem is read, and told, again
            self._remember((read, path), (mark, said))
        return said

    def _remember(self, key: tuple[Read, str], said: tuple[Mark, Any]) -> None:
        with self._changing:
            self._said[key] = said
            if len(self._said) > self._most:
                del self._said[next(iter(self._said))]

    # processes

    def read_table(self) -> dict[int, Process]:
        """Every process visible from here, each read now."""
        table = procfs.table_of(_Known)
        living = set()
        for process in table.values():
            process.warm = self
            living.add(process.identity)
        for identity in list(self._known):
            if identity not in living:
                gone = self._known.pop(identity)
                self._free += gone.entry is not None
        return dict(table)

    def kept(self, identity: ProcessIdentity) -> _Kept:
        known = self._known.get(identity)
        if known is None:
            known = self._known[identity] = _Kept()
        return known

    def held(self, identity: ProcessIdentity) -> Entry:
        known = self.kept(identity)
        if known.entry is None and self._free > 0:
            known.entry = Held(identity)
            self._free -= 1
        return known.entry or Entry(identity)


class _Kept:
    """Of one process."""

    __slots__ = ("entry", "environ", "image")

    def __init__(self) -> None:
        self.entry: Held | None = None
        self.image = b""  # that the environment was read of
        self.environ: Mapping[str, str] = {}


class Held(Entry):
    """A process's directory that stays open while anybody may read through it. Raises Gone."""

    def __init__(self, identity: ProcessIdentity) -> None:
        super().__init__(identity)
        super().__enter__()

    def __enter__(self) -> Entry:
        self.uid = os.fstat(self._fd).st_uid
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __del__(self) -> None:
        super().__exit__()


class _Known(Process):
    """A process as it is now, whose directory may be open already."""

    __slots__ = ("warm",)

    warm: Warm

    def entry(self) -> Entry:
        return self.warm.held(self.identity)

    def environ(self) -> Mapping[str, str]:
        known = self.warm.kept(self.identity)
        if known.image and known.image == self.image:
            return known.environ
        found = super().environ()
        if is_random(self.image):
            known.environ, known.image = found, self.image
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
