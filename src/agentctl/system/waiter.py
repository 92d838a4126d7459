"""Wait until a file changes, a process ends or another thread calls.

`Watch` waits for a few files and processes. `Poll` waits for many descriptors. `Waker` ends a wait
from another thread.

A file that inotify cannot watch is polled instead, and watched as soon as that is possible.
"""

from __future__ import annotations

import os
import select
import time

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Iterable, Mapping
from agentctl.system.files import translate_error
from agentctl.system.inotify import POLL_INTERVAL, Change, Inotify
from agentctl.system.pidfd import LONGEST, Handle
from agentctl.system.proc import is_in_proc


class Waker:
    """A descriptor that is ready to read once any thread has called `wake`."""

    def __init__(self) -> None:
        """Raise SourceError if no descriptor is left."""
        try:
            self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as error:
            raise translate_error(error, "eventfd") from error

    def fileno(self) -> int:
        return self._fd

    def wake(self) -> None:
        try:
            os.eventfd_write(self._fd, 1)
        except BlockingIOError:  # the counter is full: the waiting thread is awake already
            pass

    def clear(self) -> None:
        """Make it wait again."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:  # no thread has called
            pass

    def close(self) -> None:
        os.close(self._fd)


class Poll:
    """Many descriptors to wait for, and a waker. A wait costs the same for many as for few."""

    def __init__(self) -> None:
        """Raise SourceError if no descriptor is left."""
        try:
            self._epoll = select.epoll()
        except OSError as error:
            raise translate_error(error, "epoll") from error
        try:
            self._waker = Waker()
        except SourceError:
            self._epoll.close()
            raise
        self.add(self._waker.fileno())

    def add(self, descriptor: int) -> None:
        self._epoll.register(descriptor, select.EPOLLIN)

    def drop(self, descriptor: int) -> None:
        """Call this before the descriptor is closed. An ended process stays ready for ever."""
        self._epoll.unregister(descriptor)

    def wake(self) -> None:
        """End the wait, from any thread."""
        self._waker.wake()

    def wait(self, timeout: float, most: int) -> list[int]:
        """Return at most `most` descriptors that are ready; empty: woken, or the time is over."""
        ready = [descriptor for descriptor, _ in self._epoll.poll(max(0.0, timeout), most)]
        if self._waker.fileno() in ready:
            self._waker.clear()
            ready.remove(self._waker.fileno())
        return ready

    def close(self) -> None:
        self._epoll.close()
        self._waker.close()


class Watch:
    """Directories, files and processes to wait for. Use as a context manager."""

    def __init__(self, directories: Iterable[str] = (), processes: Iterable[Handle] = ()) -> None:
        self._inotify: Inotify | None = None  # opened for the first file: instances are few
        # the names that each watch is about; None: every name in the directory
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
        """The paths that are polled, and why: no instance or watch is left, or the directory may not be
        read."""
        return self._unwatched

    def add_process(self, process: Handle) -> None:
        self.add_descriptor(process.fileno())

    def add_descriptor(self, descriptor: int) -> None:
        """Wake when there is something to read."""
        self._poll.register(descriptor, select.POLLIN)

    def add_file(self, path: str) -> bool:
        """Wake when this file changes, comes or goes, and not for files beside it. Return whether it was
        not watched before: then it may have changed meanwhile.

        If its directory does not exist yet, the nearest existing one is watched. When the directory
        comes, the watch wakes, and the caller adds the file again.
        """
        try:
            watch, name = watch_nearest(self._open_inotify(), path)
        except SourceError as error:
            self._unwatched[path] = error
            return False
        self._unwatched.pop(path, None)
        names = self._names.setdefault(watch, set())
        if names is None or name in names:
            return False
        names.add(name)
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether something happened, or may have: after a second, if a path is polled."""
        start = time.monotonic()
        deadline = float("inf") if timeout is None else start + timeout
        blind_until = start + POLL_INTERVAL if self._unwatched else float("inf")
        while True:
            remaining = max(0.0, min(deadline, blind_until) - time.monotonic()) * 1000
            ready = self._poll.poll(None if remaining == float("inf") else min(remaining, LONGEST))
            inotify = self._inotify.fileno() if self._inotify is not None else -1
            if any(fd != inotify for fd, _ in ready) or (ready and self._has_changes()):
                return True
            now = time.monotonic()
            if now >= deadline:
                return False
            if now >= blind_until:
                self._watch_again()
                return True

    def _open_inotify(self) -> Inotify:
        """Raise SourceError if no instance is left."""
        if self._inotify is None:
            self._inotify = Inotify()
            self._poll.register(self._inotify, select.POLLIN)
        return self._inotify

    def _add_directory(self, directory: str) -> None:
        """Watch all names of a directory. Raises Gone."""
        try:
            self._names[self._open_inotify().add(directory)] = None
        except Gone:
            raise
        except SourceError as error:
            self._unwatched[directory] = error
        else:
            self._unwatched.pop(directory, None)

    def _watch_again(self) -> None:
        """Try again to watch what is polled. The caller looks after this call, so it misses nothing."""
        for path in list(self._unwatched):
            if path not in self._directories:
                self.add_file(path)
                continue
            try:
                self._add_directory(path)
            except Gone:  # a directory that is gone does not change
                del self._unwatched[path]

    def _has_changes(self) -> bool:
        """Return whether any change is about a watched name. The caller finds out which by looking."""
        changes = self._inotify.read() if self._inotify is not None else []
        return any([self._is_relevant(change) for change in changes])  # noqa: C419 - handle each one

    def _is_relevant(self, change: Change) -> bool:
        if change.is_watch_end:
            self._names.pop(change.watch, None)
        if change.is_about_directory:
            return True
        names = self._names.get(change.watch, set())
        return names is None or change.name in names


def watch_nearest(inotify: Inotify, path: str, *, closings: bool = False) -> tuple[int, bytes]:
    """Return the watch for this file, and the name to wait for. If its directory does not exist, watch
    the nearest existing one for the directory's name. Raises SourceError."""
    directory, name = os.path.split(_resolve(path))
    while True:
        try:
            return inotify.add(directory, closings=closings), os.fsencode(name)
        except Gone:
            directory, name = os.path.split(directory)


def _resolve(path: str) -> str:
    """Return the path without links: inotify does not report a change behind a link. Below
    /proc/PID/root links are left alone: there they mean something else."""
    return path if is_in_proc(path) else os.path.realpath(path)
