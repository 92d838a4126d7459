"""A command for an agent's shell tool: we see it begin, and let it end.

It copies from a named pipe. The kernel tells us, who hold the other end, whether anyone reads. Since it
writes a file, agents that ask before they change something ask for it.
"""

from __future__ import annotations

import errno
import os
import time

BEAT = 0.02  # seconds between two looks


class Errand:
    def __init__(self, directory: str, name: str = "errand") -> None:
        self._pipe = os.path.join(directory, name)
        os.mkfifo(self._pipe)
        self._end: int | None = None
        self.command = f"cp {name} {name}.copy"

    def begun(self, seconds: float) -> bool:
        """Waits until it runs."""
        end = time.monotonic() + seconds
        while self._end is None:
            try:
                self._end = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                if time.monotonic() > end:
                    return False
                time.sleep(BEAT)
        return True

    def finish(self) -> None:
        """Lets it end by itself, well."""
        if self._end is not None:
            os.close(self._end)
            self._end = None
