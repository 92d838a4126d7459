"""The kernel's news of directories: which name in which of them changed, came or went.

By ctypes, which costs 0.4 ms, where the usual library costs 16 and a dependency
(docs/adr/0004-inotify-by-ctypes.md).

The kernel limits instances and watches per user, and editors use them up. Then this raises `Exhausted`,
and callers look by the clock instead, once in `WITHOUT`: inotify makes news arrive early, nothing else.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from agentctl.errors import Exhausted, SourceError, Unsupported
from agentctl.system.files import translated

WITHOUT = 1.0  # seconds between two looks at what inotify does not tell of
NO_INSTANCE = "no inotify instance left; raise fs.inotify.max_user_instances"
NO_WATCH = "no inotify watch left; raise fs.inotify.max_user_watches"

# IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVE_SELF. IN_CLOSE_WRITE is not
# among them: each write is told anyway, and SQLite opens a log for writing even to read it, so that our
# own look at a database would wake us to look again, for ever.
_CHANGES = 0x002 | 0x040 | 0x080 | 0x100 | 0x200 | 0x800
_OF_ITSELF = 0x800 | 0x2000 | 0x4000 | 0x8000  # MOVE_SELF, UNMOUNT, Q_OVERFLOW, IGNORED
_CAME = 0x080 | 0x100
_CLOSED = 0x008  # IN_CLOSE_WRITE
_MOVED_HERE = 0x080
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows
_BUFFER = 1 << 16


class News(NamedTuple):
    watch: int  # -1: of none, or of all
    mask: int
    name: bytes

    @property
    def of_itself(self) -> bool:
        """The directory was moved or unmounted, or the kernel lost count: whatever it was, look."""
        return bool(self.mask & _OF_ITSELF)

    @property
    def lost(self) -> bool:
        """The kernel had more to tell than it keeps."""
        return bool(self.mask & _OVERFLOW)

    @property
    def over(self) -> bool:
        """This watch is no more."""
        return bool(self.mask & _IGNORED)

    @property
    def came(self) -> bool:
        """A name that was not there before, or names another file now."""
        return bool(self.mask & _CAME)

    @property
    def closed(self) -> bool:
        """Who had it open for writing is done: told only to who asked for that."""
        return bool(self.mask & _CLOSED)

    @property
    def whole(self) -> bool:
        """What was to be written is there: closed, or put in the place of what was there."""
        return bool(self.mask & (_CLOSED | _MOVED_HERE))


class Inotify:
    """Watches of directories. `fileno` is readable when there is news."""

    def __init__(self) -> None:
        self._counted: set[str] = set()  # directories in which closings are told
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise Unsupported("inotify", "not available here")
        self._fd = self._libc.inotify_init1(_NONBLOCK)
        if self._fd < 0:
            raise _refused(ctypes.get_errno())

    def fileno(self) -> int:
        return int(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def add(self, directory: str, *, closings: bool = False) -> int:
        """Its watch: the same for the same directory. With `closings`, each write that is over is told
        too, for good: the kernel makes one of several equal changes in a row, but not of these, since
        each has a change before it. So they can be counted. Raises SourceError."""
        if closings:
            self._counted.add(directory)
        mask = _CHANGES | (_CLOSED if directory in self._counted else 0)
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(directory or "/"), mask)
        if watch < 0:
            number = ctypes.get_errno()
            if number == errno.ENOSPC:  # of watches: nothing is written to any disk
                raise Exhausted(directory, NO_WATCH)
            raise translated(OSError(number, os.strerror(number)), directory)
        return watch

    def drop(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self._fd, watch)  # its directory may be gone, and the watch with it

    def read(self) -> list[News]:
        """All there is; none if there is none."""
        found: list[News] = []
        while True:
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                return found
            found += _news(data)
            if len(data) < _BUFFER // 2:  # there was room for more
                return found


def _refused(number: int) -> SourceError:
    """EMFILE has two meanings: no instance left for this user, or no descriptor left for this process.
    Another descriptor tells them apart."""
    error = OSError(number, os.strerror(number))
    if number != errno.EMFILE:
        return translated(error, "inotify")
    try:
        os.close(os.eventfd(0, os.EFD_CLOEXEC))
    except OSError as no_descriptor:
        return translated(no_descriptor, "inotify")
    return Exhausted("inotify", NO_INSTANCE)


def _news(data: bytes) -> Iterator[News]:
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield News(watch, mask, data[offset : offset + length].rstrip(b"\0"))
        offset += length
