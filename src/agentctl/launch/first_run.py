"""The first start of an agent in a new home, one at a time.

Some agents make a database on their first start, and a second one that starts meanwhile finds it locked
and fails. So the launch that finds none holds a lock until its agent has a session, and others wait for
that. The kernel gives the lock back when the launcher dies.
"""

from __future__ import annotations

import fcntl
import os
import time

from agentctl.errors import SourceError
from agentctl.system import files, private

LOCK = "first-start.lock"
# Seconds after which a launch goes on beside a first one that has not arrived: an agent that hangs must
# not hold up all others for good.
PATIENCE = 60.0
BEAT = 0.02  # seconds: the kernel wakes who waits for such a lock, but not at a deadline


class Turn:
    """Held from its making until `over`, by a launch whose agent has yet to make its database."""

    def __init__(self, state: str, creates: str | None) -> None:
        self._lock: int | None = None
        if creates is None:
            return
        path = f"{state}/{LOCK}"
        try:
            private.make_private(path)
            self._lock = os.open(path, os.O_RDWR)
        except OSError as error:
            raise files.translated(error, path) from error
        if not self._take() or _exists(creates):
            self.over()

    def over(self) -> None:
        """Its agent has a session, or has failed: the next may start."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> bool:
        """Whether it is ours: false, if another one takes too long."""
        assert self._lock is not None
        end = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
            time.sleep(BEAT)


def _exists(path: str) -> bool:
    try:
        return files.exists(path)
    except SourceError:  # not for us to read: then it is there
        return True
