"""Named gates that answers wait at. A gate once open stays open; when the model stops, all waits end."""

from __future__ import annotations

import threading


class Stopped(Exception):
    """The model server is being stopped: whoever waits gives up."""


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

    def go_on(self) -> None:
        """The server was started again."""
        with self._change:
            self._stopped = False

    @property
    def stopped(self) -> bool:
        with self._change:
            return self._stopped

    def wait(self, name: str | None, seconds: float) -> bool:
        """Is it open, after at most so long? Without a name: just that long."""
        with self._change:
            self._change.wait_for(lambda: self._stopped or name in self._open, seconds)
            if self._stopped:
                raise Stopped
            return name in self._open
