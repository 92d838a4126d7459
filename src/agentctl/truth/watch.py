"""Wait until a file changes or a process ends, without polling: inotify and pidfd in one poll.

inotify through ctypes, which costs 0.4 ms, where the usual library costs 16 and a dependency
(docs/adr/0004-inotify-by-ctypes.md).
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from collections.abc import Iterable, Iterator

from agentctl.errors import Gone, SourceError, Unsupported
from agentctl.truth.files import translated
from agentctl.truth.pidfd import LONGEST, Handle

# IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVE_SELF. IN_CLOSE_WRITE is not
# among them: each write is told anyway, and SQLite opens a log for writing even to read it, so that our
# own look at a database would wake us to look again, for ever.
_CHANGES = 0x002 | 0x040 | 0x080 | 0x100 | 0x200 | 0x800
_OF_ITSELF = 0x800 | 0x2000 | 0x4000 | 0x8000  # MOVE_SELF, UNMOUNT, Q_OVERFLOW, IGNORED: look again
_IGNORED = 0x8000
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


class Watch:
    """Directories, files and processes to wait for. Use as a context manager."""

    def __init__(self, directories: Iterable[str] = (), processes: Iterable[Handle] = ()) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "inotify_init1"):
            raise Unsupported("inotify", "not available here")
        self._fd = self._libc.inotify_init1(_NONBLOCK)
        if self._fd < 0:
            raise translated(OSError(ctypes.get_errno(), "inotify_init1"), "inotify")
        # what each watch is about: names in a directory, or None for all of them
        self._names: dict[int, set[bytes] | None] = {}
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        try:
            for directory in dict.fromkeys(directories):
                self._names[self._add(directory)] = None
        except SourceError:
            self.close()
            raise
        for process in processes:
            self.add_process(process)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    def add_process(self, process: Handle) -> None:
        self._poll.register(process, select.POLLIN)

    def drop_process(self, process: Handle) -> None:
        """Before its handle is closed; an ended process would wake us for ever."""
        self._poll.unregister(process)

    def add_file(self, path: str) -> bool:
        """Wake when this file changes, comes or goes; other files beside it wake nobody. Whether that is
        news: then it may have changed before we watched.

        A directory that does not exist yet is waited for in the nearest that does: when it comes, that
        wakes, and the file is to be added again.
        """
        directory, name = os.path.split(_real(path))
        while True:
            try:
                watch = self._add(directory)
                break
            except Gone:
                directory, name = os.path.split(directory)
        known = self._names.setdefault(watch, set())
        encoded = os.fsencode(name)
        if known is None or encoded in known:
            return False
        known.add(encoded)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Whether something happened; returns at once when it does."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            happened = self._poll.poll(None if left is None else min(left, LONGEST))
            if any(fd != self._fd for fd, _ in happened) or (happened and self._ours_changed()):
                return True
            if not happened and (left is None or left <= LONGEST):
                return False

    def _add(self, directory: str) -> int:
        watch: int = self._libc.inotify_add_watch(self._fd, os.fsencode(directory or "/"), _CHANGES)
        if watch < 0:
            number = ctypes.get_errno()
            raise translated(OSError(number, os.strerror(number)), directory)
        return watch

    def _ours_changed(self) -> bool:
        """What changed is found by looking, not by being told: one that concerns us is enough."""
        return any([self._concerns_us(*event) for event in _events(os.read(self._fd, 1 << 16))])  # noqa: C419 - every event is to be seen

    def _concerns_us(self, watch: int, mask: int, name: bytes) -> bool:
        if mask & _IGNORED:
            self._names.pop(watch, None)
        if mask & _OF_ITSELF:
            return True
        wanted = self._names.get(watch, set())
        return wanted is None or name in wanted


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    offset = 0
    while offset < len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, offset)
        offset += _EVENT.size
        yield watch, mask, data[offset : offset + length].rstrip(b"\0")
        offset += length


def _real(path: str) -> str:
    """Where the bytes are: a change behind a link is not seen beside the link. Below /proc/PID/root,
    another's file system, links mean something else."""
    return path if path.startswith("/proc/") else os.path.realpath(path)
