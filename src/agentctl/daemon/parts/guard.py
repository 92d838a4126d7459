"""Sees to it that the daemon's home is still its own.

Deleting the state directory is always allowed. A daemon whose lock file is gone would go on beside the
next one: it ends. One whose socket alone is gone makes it anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from agentctl.daemon.wake import Wake

SLOW = 30.0  # seconds: a look without being told, for file systems that tell nothing (NFS)


class Guard:
    """Calls `look` whenever one of these files may have changed. Its thread ends with the process."""

    name = "guard"

    def __init__(self, files: tuple[str, ...], look: Callable[[], None]) -> None:
        self._files = files
        self._look = look
        self._stopping = False

    def start(self) -> None:
        self._wake = Wake(self._files, self.name)
        threading.Thread(target=self._run, name=self.name, daemon=True).start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.call()

    def status(self) -> dict[str, Any]:
        return self._wake.condition

    def _run(self) -> None:
        while not self._stopping:
            self._look()
            self._wake.wait(SLOW)
