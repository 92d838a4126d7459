"""Changes in directories, from the kernel: which name changed, came or went.

By ctypes: it costs 0.4 ms, the usual library 16 ms and a dependency
(docs/adr/0004-inotify-by-ctypes.md).

The kernel limits instances and watches per user, and editors use them up. Then this module raises
`Exhausted`, and callers poll every `WITHOUT` seconds instead: inotify only makes changes arrive earlier.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from agentctl.errors import Exhausted, SourceError, Unsupported
from agentctl.light_typing import Iterator, NamedTuple
from agentctl.system.files import translate_error

POLL_INTERVAL = 1.0  # seconds between two looks at a file that inotify does not watch
NO_INSTANCE = "no inotify instance left; raise fs.inotify.max_user_instances"
NO_WATCH = "no inotify watch left; raise fs.inotify.max_user_watches"

# IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVE_SELF. IN_CLOSE_WRITE is not
# among them: each write is reported anyway, and SQLite opens a log for writing even to read it, so our
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


class Change(NamedTuple):
    watch: int  # -1: of no single watch
    mask: int
    name: bytes

    @property
    def is_about_directory(self) -> bool:
        """The directory was moved or unmounted, or the kernel lost changes: look again."""
        return bool(self.mask & _OF_ITSELF)

    @property
    def is_overflow(self) -> bool:
        """The kernel dropped changes: its queue was full."""
        return bool(self.mask & _OVERFLOW)

    @property
    def is_watch_end(self) -> bool:
        """The watch has ended."""
        return bool(self.mask & _IGNORED)

    @property
    def is_new_name(self) -> bool:
        """The name is new, or names another file now."""
        return bool(self.mask & _CAME)

    @property
    def is_closed(self) -> bool:
        """A writer has closed the file. Reported only with `closings`."""
        return bool(self.mask & _CLOSED)

    @property
    def is_complete(self) -> bool:
        """The new content is complete: the file was closed, or another file was moved to its name."""
        return bool(self.mask & (_CLOSED | _MOVED_HERE))


class Inotify:
    """Watches of directories. `fileno` is readable when there are changes."""

    def __init__(self) -> None:
        self._with_closings: set[str] = set()  # directories
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise Unsupported("inotify", "not available here")
        self._fd = self._libc.inotify_init1(_NONBLOCK)
        if self._fd < 0:
            raise _translate_refusal(ctypes.get_errno())

    def fileno(self) -> int:
        return int(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def add(self, directory: str, *, closings: bool = False) -> int:
        """Return the watch of a directory, always the same one. With `closings`, each close after a
        write is reported too, from now on. The kernel merges equal changes in a row, but not these,
        since each follows a change. So they can be counted. Raises SourceError."""
        if closings:
            self._with_closings.add(directory)
        mask = _CHANGES | (_CLOSED if directory in self._with_closings else 0)
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(directory or "/"), mask)
        if watch < 0:
            number = ctypes.get_errno()
            if number == errno.ENOSPC:  # no watch left; it is not about a disk
                raise Exhausted(directory, NO_WATCH)
            raise translate_error(OSError(number, os.strerror(number)), directory)
        return watch

    def drop(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self._fd, watch)  # its directory may be gone, and the watch with it

    def read(self) -> list[Change]:
        """Return all changes since the last read."""
        changes: list[Change] = []
        while True:
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                return changes
            changes += _parse_changes(data)
            if len(data) < _BUFFER // 2:  # the queue is empty: there was room for more
                return changes


def _translate_refusal(number: int) -> SourceError:
    """Return the error. EMFILE has two meanings: no instance left for this user, or no descriptor left
    for this process. Opening another descriptor shows which."""
    error = OSError(number, os.strerror(number))
    if number != errno.EMFILE:
        return translate_error(error, "inotify")
    try:
        os.close(os.eventfd(0, os.EFD_CLOEXEC))
    except OSError as no_descriptor:
        return translate_error(no_descriptor, "inotify")
    return Exhausted("inotify", NO_INSTANCE)


def _parse_changes(data: bytes) -> Iterator[Change]:
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield Change(watch, mask, data[offset : offset + length].rstrip(b"\0"))
        offset += length
