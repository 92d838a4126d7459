"""Check that the daemon's home is still its own.

Deleting the state directory is always allowed. A daemon whose lock file is gone ends: else it would run
beside the next one. A daemon whose socket alone is gone makes a new one.
"""

from __future__ import annotations

from agentctl.daemon.parts.worker import Worker
from agentctl.light_typing import Any, Callable

SLOW = 30.0  # seconds: then look anyway, for file systems without notifications (NFS)


class Guard(Worker[str]):
    """Calls `look` at the start and whenever one of the files may have changed."""

    name = "guard"

    def __init__(self, files: tuple[str, ...], look: Callable[[], None]) -> None:
        super().__init__(*files)
        self._look = look

    def status(self) -> dict[str, Any]:
        return self._condition

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._look()
            self._pause(SLOW)
