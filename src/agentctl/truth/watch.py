"""Wait until a file changes or a process ends, without polling: inotify and pidfd in one poll."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable

from agentctl.errors import Gone, SourceError
from agentctl.truth.inotify import Inotify, News
from agentctl.truth.pidfd import LONGEST, Handle


class Watch:
    """Directories, files and processes to wait for. Use as a context manager."""

    def __init__(self, directories: Iterable[str] = (), processes: Iterable[Handle] = ()) -> None:
        self._inotify = Inotify()
        # what each watch is about: names in a directory, or None for all of them
        self._names: dict[int, set[bytes] | None] = {}
        self._poll = select.poll()
        self._poll.register(self._inotify, select.POLLIN)
        try:
            for directory in dict.fromkeys(directories):
                self._names[self._inotify.add(directory)] = None
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
        self._inotify.close()

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
        watch, name = nearest(self._inotify, path)
        known = self._names.setdefault(watch, set())
        if known is None or name in known:
            return False
        known.add(name)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Whether something happened; returns at once when it does."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            happened = self._poll.poll(None if left is None else min(left, LONGEST))
            ours = self._inotify.fileno()
            if any(fd != ours for fd, _ in happened) or (happened and self._ours_changed()):
                return True
            if not happened and (left is None or left <= LONGEST):
                return False

    def _ours_changed(self) -> bool:
        """What changed is found by looking, not by being told: one that concerns us is enough."""
        return any([self._concerns_us(news) for news in self._inotify.read()])  # noqa: C419 - each is to be seen

    def _concerns_us(self, news: News) -> bool:
        if news.over:
            self._names.pop(news.watch, None)
        if news.of_itself:
            return True
        wanted = self._names.get(news.watch, set())
        return wanted is None or news.name in wanted


def nearest(inotify: Inotify, path: str, *, closings: bool = False) -> tuple[int, bytes]:
    """The watch that tells of this file, and by which name. Where its directory does not exist, the
    nearest that does tells when that comes. Raises SourceError."""
    directory, name = os.path.split(_real(path))
    while True:
        try:
            return inotify.add(directory, closings=closings), os.fsencode(name)
        except Gone:
            directory, name = os.path.split(directory)


def _real(path: str) -> str:
    """Where the bytes are: a change behind a link is not seen beside the link. Below /proc/PID/root,
    another's file system, links mean something else."""
    return path if path.startswith("/proc/") else os.path.realpath(path)
