"""Waits for files to change, or to be called from another thread: inotify and an eventfd in one poll."""

from __future__ import annotations

import logging
import os
import select
import time
from collections.abc import Iterable

from agentctl.errors import SourceError
from agentctl.truth.inotify import Inotify
from agentctl.truth.watch import nearest

log = logging.getLogger("agentctl.daemon.wake")

LONGEST = 60.0  # seconds: a look without being told, for file systems that tell nothing (NFS)


class Wake:
    """One thread waits; any thread calls."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = tuple(files)
        self._inotify = Inotify()
        self._called = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._inotify, select.POLLIN)
        self._poll.register(self._called, select.POLLIN)
        self._wanted: set[tuple[int, bytes]] = set()
        self._watch()

    def call(self) -> None:
        os.eventfd_write(self._called, 1)

    def wait(self, seconds: float) -> None:
        """Until something may have happened, and never longer than a minute. Other files beside ours
        wake nobody."""
        if self._watch():
            return
        deadline = time.monotonic() + min(seconds, LONGEST)
        while (left := deadline - time.monotonic()) > 0:
            self._poll.poll(left * 1000)
            if self._heard():
                return

    def close(self) -> None:
        self._inotify.close()
        os.close(self._called)

    def _heard(self) -> bool:
        """Takes all the news there is."""
        called = False
        try:
            called = os.eventfd_read(self._called) > 0
        except BlockingIOError:
            pass
        news = self._inotify.read()
        return called or any(one.of_itself or (one.watch, one.name) in self._wanted for one in news)

    def _watch(self) -> bool:
        """Whether a file is looked for elsewhere than before: its directory has come, or is another
        one, and it may have changed before we knew."""
        try:
            wanted = {nearest(self._inotify, file) for file in self._files}
        except SourceError as error:  # the slow look remains
            log.warning("cannot be told of changes: %s", error)
            return False
        changed, self._wanted = wanted != self._wanted, wanted
        return changed
