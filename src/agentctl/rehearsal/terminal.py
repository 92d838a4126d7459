"""A pseudo-terminal in place of a user: it reads the screen, answers queries and types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress

from agentctl.light_typing import Mapping, Sequence
from agentctl.rehearsal.screen import COLUMNS, LINES, Screen

CHUNK = 1 << 16
FAREWELL = 1.0  # seconds to read the last output
# Makes the terminal its controlling terminal and becomes the program: without this, Ctrl-C and a
# change of the window size reach no process. It is a separate program, because almost nothing is
# allowed between a fork and an exec in a process with threads.
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
OPENER = (sys.executable, "-IS", "-c", TAKE_TERMINAL)


class Terminal:
    """Runs one program in a terminal of its own, and answers what it asks of a terminal."""

    def __init__(self, program: Sequence[str], environ: Mapping[str, str], cwd: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._screen = Screen()
        self._change = threading.Condition()
        self._closed = False
        try:
            self.process = subprocess.Popen(
                [*OPENER, *program],
                env=dict(environ),
                cwd=cwd,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_closed(self) -> bool:
        """True when no process has the terminal open any more."""
        with self._change:
            return self._closed

    def read_screen(self) -> str:
        """Return the text that a user sees now, or saw last."""
        with self._change:
            return self._screen.text

    def type(self, text: str) -> None:
        """Type this text. Do nothing if the program has ended: the caller sees that elsewhere."""
        with self._change, suppress(OSError):
            if not self._closed:
                os.write(self._ours, text.encode())

    def wait_for(self, pattern: str, seconds: float) -> bool:
        """Wait until the screen shows this pattern. Return False if the time is over or the terminal was
        closed."""
        regex = re.compile(pattern)
        with self._change:
            self._change.wait_for(
                lambda: self._closed or regex.search(self._screen.text) is not None, seconds
            )
            return regex.search(self._screen.text) is not None

    def close(self) -> None:
        """Kill the program. Its terminal closes when no process that it started has it open any more."""
        self.process.kill()
        self.process.wait()
        self._reader.join(FAREWELL)

    def _read(self) -> None:
        """Read our end until it closes. Only this thread reads and closes it: another thread could read
        a descriptor that is another file by then."""
        while True:
            try:
                output = os.read(self._ours, CHUNK)
            except OSError:  # EIO: no process has the other end open any more
                output = b""
            with self._change:
                self._change.notify_all()
                if not output:
                    self._closed = True
                    os.close(self._ours)
                    return
                reply = self._screen.feed(output)
            if reply:
                self._answer(reply)

    def _answer(self, reply: bytes) -> None:
        with suppress(OSError):  # the program has ended
            os.write(self._ours, reply)
