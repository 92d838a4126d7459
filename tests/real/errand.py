"""A command for an agent's shell tool: the driver sees it begin, lets it end, and sees it outlive.

It reads a named pipe. The kernel tells the driver, who holds the other end, whether anyone reads.
"""

from __future__ import annotations

import errno
import os
import select
import time
from pathlib import Path

from tests.waiting import until

PATIENCE = 60.0  # seconds: its agent may be slow to start


class Errand:
    def __init__(self, pipe: Path) -> None:
        os.mkfifo(pipe)
        self._pipe = pipe
        self._end: int | None = None

    @property
    def command(self) -> str:
        """Only reads: agents that ask before they run something do not ask for this."""
        return f"cat {self._pipe.name}"

    @property
    def daring(self) -> str:
        """Writes: they ask. Runs as long as the other."""
        return f"cp {self._pipe.name} {self._pipe.name}.copy"

    def begun(self) -> float:
        """Waits until it runs; since when we know."""
        until(self._has_reader, f"the command on {self._pipe.name} runs", PATIENCE)
        return time.time()

    @property
    def runs(self) -> bool:
        """Whether it is still there. Killed is not the same as ended: an orphan goes on."""
        assert self._end is not None, "it has not begun"
        poll = select.poll()
        poll.register(self._end, 0)
        return not poll.poll(0)  # an error is the only event: the last reader has gone

    def ends(self) -> None:
        """Lets it end by itself, well."""
        assert self._end is not None, "it has not begun"
        os.write(self._end, b"done\n")
        os.close(self._end)
        self._end = None

    def _has_reader(self) -> bool:
        try:
            self._end = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True
