"""A part of the daemon that waits in one thread and has its work done by others, so that what hangs
holds nobody but itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from agentctl.daemon.wake import Wake

log = logging.getLogger("agentctl.daemon.parts.worker")

PARTING = 1.0  # seconds for what is at work when the daemon ends: the next one goes on with it
REST = 5.0  # seconds after an error that nobody foresaw
BREATH = 0.05  # seconds between two looks: a thousand writes a second are not a thousand looks

Work = TypeVar("Work", bound=Hashable)


class Hands(Generic[Work]):
    """Whoever is one has a `_run` that waits with `_pause` until `_stopping`."""

    name = "hands"

    def __init__(self, *files: str) -> None:
        """`files`: whose changes wake it."""
        self._files = files
        self._stopping = threading.Event()
        self._mutex = threading.Lock()
        self._working: dict[Work, threading.Thread] = {}
        self._resting: dict[Work, float] = {}  # until when, by the clock that is never set
        self._broken: str | None = None  # what ended `_run` before its time

    def start(self) -> None:
        self._wake = Wake(self._files, self.name)
        self._thread = threading.Thread(target=self._keep_running, name=self.name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.call()
        until = time.monotonic() + PARTING
        with self._mutex:
            working = list(self._working.values())
        for thread in (self._thread, *working):
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def _condition(self) -> dict[str, Any]:
        """For `status`: empty where all is well."""
        if self._broken is not None:
            return {"state": "failing", "problem": self._broken}
        return self._wake.condition

    def _keep_running(self) -> None:
        """An error that nobody foresaw costs a rest, not the part."""
        while not self._stopping.is_set():
            try:
                self._run()
            except Exception as error:  # the fence
                self._broken = f"{type(error).__name__}: {error}"
                log.exception("%s begins again", self.name)
                self._stopping.wait(REST)

    def _run(self) -> None:
        raise NotImplementedError

    def _pause(self, seconds: float) -> None:
        """Until something may have happened."""
        self._broken = None  # a whole round went well
        self._wake.wait(seconds)
        self._stopping.wait(BREATH)
