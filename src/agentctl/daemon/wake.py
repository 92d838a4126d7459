"""Waits for files to change, or to be called from another thread.

Where inotify cannot tell of a change (no instance or watch is left), the wait ends after a second, so
that whoever waits looks by the clock; inotify is used again as soon as it is there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from agentctl.errors import Exhausted, SourceError
from agentctl.system.files import translated
from agentctl.system.waiter import Watch

log = logging.getLogger("agentctl.daemon.wake")

LONGEST = 60.0  # seconds: a look without being told, for file systems that tell nothing (NFS)


class Wake:
    """One thread waits; any thread calls. `who` waits is for the log."""

    def __init__(self, files: Iterable[str], who: str = "") -> None:
        """Raises SourceError where no descriptor is left."""
        self._files, self._who = tuple(files), who
        self.problem: str | None = None  # why changes are looked for by the clock
        self._watch = Watch()
        try:
            self._called = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as error:
            raise translated(error, "eventfd") from error
        self._watch.add_descriptor(self._called)
        self._find_files()

    def call(self) -> None:
        os.eventfd_write(self._called, 1)

    def wait(self, seconds: float) -> None:
        """Until something may have happened, and never longer than a minute. Other files beside ours
        wake nobody."""
        if not self._find_files():
            self._watch.wait(min(seconds, LONGEST))
        try:
            os.eventfd_read(self._called)
        except BlockingIOError:  # nobody has called
            pass

    def close(self) -> None:
        self._watch.close()
        os.close(self._called)

    @property
    def condition(self) -> dict[str, Any]:
        """For the status of a daemon part: empty where all is well."""
        return {} if self.problem is None else {"state": "degraded", "problem": self.problem}

    def _find_files(self) -> bool:
        """Whether a file is looked for elsewhere than before: its directory has come, or is another
        one, and it may have changed before we knew."""
        news = [self._watch.add_file(file) for file in self._files]
        problem = _reason(self._watch.unwatched.values())
        if problem != self.problem:
            level = logging.INFO if problem is None else logging.WARNING
            log.log(level, "%s: %s", self._who, problem or "is told of changes again")
        self.problem = problem
        return any(news)


def _reason(errors: Iterable[SourceError]) -> str | None:
    """Which of the files it was does not matter where a limit is reached."""
    for error in errors:
        return error.why if isinstance(error, Exhausted) else str(error)
    return None
