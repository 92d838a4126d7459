"""Wait until a file changes or a process ends, without polling: inotify and pidfd in one poll.

inotify through ctypes, which costs 0.4 ms, where the usual library costs 16 and a dependency
(docs/adr/0004-inotify-by-ctypes.md).
"""

from __future__ import annotations

import ctypes
import os
import select
from collections.abc import Iterable

from agentctl.errors import Unsupported
from agentctl.truth.files import translated
from agentctl.truth.pidfd import Handle

# IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE
_CHANGES = 0x002 | 0x008 | 0x080 | 0x100 | 0x200
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC


class Watch:
    """Directories and processes to wait for. Use as a context manager."""

    def __init__(self, directories: Iterable[str], processes: Iterable[Handle]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "inotify_init1"):
            raise Unsupported("inotify", "not available here")
        self._fd = libc.inotify_init1(_NONBLOCK)
        if self._fd < 0:
            raise translated(OSError(ctypes.get_errno(), "inotify_init1"), "inotify")
        for directory in dict.fromkeys(directories):
            if libc.inotify_add_watch(self._fd, os.fsencode(directory), _CHANGES) < 0:
                number = ctypes.get_errno()
                self.close()
                raise translated(OSError(number, os.strerror(number)), directory)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        for process in processes:
            self._poll.register(process, select.POLLIN)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    def wait(self, timeout: float | None = None) -> bool:
        """Whether something happened; returns at once when it does."""
        happened = self._poll.poll(None if timeout is None else timeout * 1000)
        if any(fd == self._fd for fd, _ in happened):
            os.read(self._fd, 1 << 16)  # what changed is found by looking, not by being told
        return bool(happened)
