"""Let one agent at a time make its first start in a new home.

Some agents create a database on their first start. A second agent that starts meanwhile finds it locked
and fails. So a launch that finds no database holds a lock until its agent has a session, and other
launches wait for the lock. The kernel releases it when the launcher dies.
"""

from __future__ import annotations

import fcntl
import os
import time

from agentctl.errors import SourceError
from agentctl.system import files, permissions

LOCK = "first-start.lock"
# Seconds after which a launch no longer waits for another first start: an agent that hangs must not
# hold up all others.
PATIENCE = 60.0
BEAT = 0.02  # seconds: flock has no time limit, so the lock is tried again


class Turn:
    """The lock, held from construction until `end` by a launch whose agent creates its database."""

    def __init__(self, state: str, creates: str | None) -> None:
        self._lock: int | None = None
        if creates is None:
            return
        path = f"{state}/{LOCK}"
        try:
            permissions.make_private(path)
            self._lock = os.open(path, os.O_RDWR)
        except OSError as error:
            raise files.translate_error(error, path) from error
        if not self._take() or _exists(creates):
            self.end()

    def end(self) -> None:
        """Release the lock: the agent has a session, or has failed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> bool:
        """Return True if we hold the lock, False if another launch takes too long."""
        assert self._lock is not None
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
            time.sleep(BEAT)


def _exists(path: str) -> bool:
    try:
        return files.is_present(path)
    except SourceError:  # it is there, and we may not read it
        return True
