"""Named gates at which answers wait. An open gate stays open. When the model stops, all waits end."""

from __future__ import annotations

import threading


class Stopped(Exception):
    """The model server stops: every wait ends."""


class Gates:
    def __init__(self) -> None:
        self._open: set[str] = set()
        self._stopped = False
        self._change = threading.Condition()

    def open(self, name: str) -> None:
        with self._change:
            self._open.add(name)
            self._change.notify_all()

    def stop(self) -> None:
        with self._change:
            self._stopped = True
            self._change.notify_all()

    def resume(self) -> None:
        """Allow waits again: the server was started again."""
        with self._change:
            self._stopped = False

    @property
    def is_stopped(self) -> bool:
        with self._change:
            return self._stopped

    def wait(self, name: str | None, seconds: float) -> bool:
        """Wait until this gate is open. Return False if it is not after `seconds`; without a name,
        always wait that long. Raises Stopped."""
        with self._change:
            self._change.wait_for(lambda: self._stopped or name in self._open, seconds)
            if self._stopped:
                raise Stopped
            return name in self._open
