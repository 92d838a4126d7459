"""Wait until a file changes or a process ends: inotify and pidfd in one poll.

What inotify cannot watch is looked at by the clock instead, and watched as soon as that is possible.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable, Mapping

from agentctl.errors import Gone, SourceError
from agentctl.system.inotify import WITHOUT, Inotify, News
from agentctl.system.pidfd import LONGEST, Handle


class Watch:
    """Directories, files and processes to wait for. Use as a context manager."""

    def __init__(self, directories: Iterable[str] = (), processes: Iterable[Handle] = ()) -> None:
        self._inotify: Inotify | None = None  # opened for the first file: instances are few
        # what each watch is about: names in a directory, or None for all of them
        self._names: dict[int, set[bytes] | None] = {}
        self._unwatched: dict[str, SourceError] = {}
        self._directories = frozenset(directories)
        self._poll = select.poll()
        try:
            for directory in self._directories:
                self._add_directory(directory)
        except Gone:
            self.close()
            raise
        for process in processes:
            self.add_process(process)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()

    @property
    def unwatched(self) -> Mapping[str, SourceError]:
        """What is looked at by the clock, and why: no instance or watch is left, or the directory is
        closed to us."""
        return self._unwatched

    def add_process(self, process: Handle) -> None:
        self.add_descriptor(process.fileno())

    def drop_process(self, process: Handle) -> None:
        """Before its handle is closed; an ended process would wake us for ever."""
        self._poll.unregister(process)

    def add_descriptor(self, descriptor: int) -> None:
        """Wake when there is something to read."""
        self._poll.register(descriptor, select.POLLIN)

    def add_file(self, path: str) -> bool:
        """Wake when this file changes, comes or goes; other files beside it wake nobody. Whether that is
        news: then it may have changed before we watched.

        A directory that does not exist yet is waited for in the nearest that does: when it comes, that
        wakes, and the file is to be added again.
        """
        try:
            watch, name = nearest(self._opened(), path)
        except SourceError as error:
            self._unwatched[path] = error
            return False
        self._unwatched.pop(path, None)
        known = self._names.setdefault(watch, set())
        if known is None or name in known:
            return False
        known.add(name)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Whether something happened, or may have: returns at once when it does, and after a second
        where something is not watched."""
        began = time.monotonic()
        deadline = float("inf") if timeout is None else began + timeout
        blind_until = began + WITHOUT if self._unwatched else float("inf")
        while True:
            left = max(0.0, min(deadline, blind_until) - time.monotonic()) * 1000
            happened = self._poll.poll(None if left == float("inf") else min(left, LONGEST))
            ours = self._inotify.fileno() if self._inotify is not None else -1
            if any(fd != ours for fd, _ in happened) or (happened and self._ours_changed()):
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            if now >= blind_until:
                self._watch_again()
                return True

    def _opened(self) -> Inotify:
        """Raises SourceError."""
        if self._inotify is None:
            self._inotify = Inotify()
            self._poll.register(self._inotify, select.POLLIN)
        return self._inotify

    def _add_directory(self, directory: str) -> None:
        """Raises Gone where there is none."""
        try:
            self._names[self._opened().add(directory)] = None
        except Gone:
            raise
        except SourceError as error:
            self._unwatched[directory] = error
        else:
            self._unwatched.pop(directory, None)

    def _watch_again(self) -> None:
        """The caller looks after this: nothing is missed in between."""
        for path in list(self._unwatched):
            if path not in self._directories:
                self.add_file(path)
                continue
            try:
                self._add_directory(path)
            except Gone:  # nothing can change in it
                del self._unwatched[path]

    def _ours_changed(self) -> bool:
        """What changed is found by looking, not by being told: one that concerns us is enough."""
        news = self._inotify.read() if self._inotify is not None else []
        return any([self._concerns_us(each) for each in news])  # noqa: C419 - each is to be seen

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
