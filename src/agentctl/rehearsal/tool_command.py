"""A command for an agent's shell tool: we see it begin, let it end, and see it outlive its agent.

It reads a named pipe. The kernel tells us, who hold the other end, whether anyone reads.
"""

from __future__ import annotations

import errno
import os
import select
import time

BEAT = 0.02  # seconds between two looks


class Errand:
    def __init__(self, directory: str, name: str = "errand") -> None:
        self._pipe = os.path.join(directory, name)
        os.mkfifo(self._pipe)
        self._end: int | None = None
        self.command = f"cat {name}"  # only reads: no agent asks for a permission
        self.daring = f"cp {name} {name}.copy"  # writes: some do. Runs as long as the other

    def begun(self, seconds: float) -> bool:
        """Waits until it runs."""
        end = time.monotonic() + seconds
        while not self._has_reader():
            if time.monotonic() > end:
                return False
            time.sleep(BEAT)
        return True

    @property
    def runs(self) -> bool:
        """Whether it has begun and is still there: an orphan goes on after its agent."""
        if self._end is None:
            return False
        poll = select.poll()
        poll.register(self._end, 0)
        return not poll.poll(0)  # an error is the only event: the last reader has gone

    def finish(self) -> None:
        """Lets it end by itself, well."""
        if self._end is not None:
            os.close(self._end)
            self._end = None

    def _has_reader(self) -> bool:
        try:
            self._end = self._end or os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        return self._end is not None
