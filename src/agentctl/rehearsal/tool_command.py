"""A command for an agent's shell tool. We see when it starts, we let it end, and we see if it outlives
its agent.

The command reads a named pipe of which we have the other end: the kernel tells us if there is a reader.
"""

from __future__ import annotations

import errno
import os
import select
import time

BEAT = 0.02  # seconds between two looks


class ToolCommand:
    def __init__(self, directory: str, name: str = "errand") -> None:
        self._pipe = os.path.join(directory, name)
        os.mkfifo(self._pipe)
        self._end: int | None = None
        self.command = f"cat {name}"  # it only reads: no agent asks for permission
        self.writing_command = f"cp {name} {name}.copy"  # some agents ask. It runs as long

    def wait_for_start(self, seconds: float) -> bool:
        """Wait until the command runs. Return False if it does not in this time."""
        end = time.monotonic() + seconds
        while not self._has_reader():
            if time.monotonic() > end:
                return False
            time.sleep(BEAT)
        return True

    @property
    def runs(self) -> bool:
        """True while the command runs. As an orphan it runs on after its agent."""
        if self._end is None:
            return False
        poll = select.poll()
        poll.register(self._end, 0)
        return not poll.poll(0)  # the only event is an error: there is no reader any more

    def finish(self) -> None:
        """Let the command end by itself, with success."""
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
