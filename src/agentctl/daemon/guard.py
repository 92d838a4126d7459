"""Sees to it that the daemon's home is still its own.

Deleting the state directory is always allowed. A daemon whose lock file is gone would go on beside the
next one: it ends. One whose socket alone is gone makes it anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from agentctl.errors import SourceError
from agentctl.truth.watch import Watch

log = logging.getLogger("agentctl.daemon.guard")

SLOW = 30.0  # seconds: a look without being told, for file systems that tell nothing (NFS)


class Guard:
    """Calls `look` whenever one of these files may have changed. Its thread ends with the process."""

    name = "guard"

    def __init__(self, files: tuple[str, ...], look: Callable[[], None]) -> None:
        self._files = files
        self._look = look
        self._stopping = False

    def start(self) -> None:
        watch = Watch()
        self._watched(watch)
        threading.Thread(target=self._run, args=(watch,), name=self.name, daemon=True).start()

    def stop(self) -> None:
        self._stopping = True

    def status(self) -> dict[str, Any]:
        return {}

    def _run(self, watch: Watch) -> None:
        while not self._stopping:
            self._look()
            watch.wait(SLOW)
            self._watched(watch)

    def _watched(self, watch: Watch) -> None:
        try:
            for file in self._files:
                watch.add_file(file)
        except SourceError as error:  # the slow look remains
            log.warning("cannot be told of changes: %s", error)
