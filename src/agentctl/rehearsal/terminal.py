"""A person at a terminal, without one: a pseudo-terminal whose other end reads, answers and types."""

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
from collections.abc import Mapping, Sequence
from contextlib import suppress

from agentctl.rehearsal.screen import COLUMNS, LINES, Screen

CHUNK = 1 << 16
FAREWELL = 1.0  # seconds for the last words to be read
# Becomes the program, after it has made the terminal its own: else Ctrl-C and the window's size reach
# nobody. A program of its own, since after a fork beside other threads almost nothing is allowed.
TAKE_IT = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
OPENER = (sys.executable, "-IS", "-c", TAKE_IT)


class Terminal:
    """Runs one program with a terminal of its own. Whatever it asks of a terminal is answered."""

    def __init__(self, program: Sequence[str], environ: Mapping[str, str], cwd: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._screen = Screen()
        self._news = threading.Condition()
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
    def closed(self) -> bool:
        """Nobody has it open any more."""
        with self._news:
            return self._closed

    def screen(self) -> str:
        """What a person sees now, or saw last."""
        with self._news:
            return self._screen.text

    def type(self, text: str) -> None:
        """Nobody hears it once the program is gone; that shows elsewhere."""
        with self._news, suppress(OSError):
            if not self._closed:
                os.write(self._ours, text.encode())

    def shows(self, pattern: str, seconds: float) -> bool:
        """Waits until the screen shows this, or the program has closed it."""
        wanted = re.compile(pattern)
        with self._news:
            found = self._news.wait_for(
                lambda: self._closed or wanted.search(self._screen.text) is not None, seconds
            )
            return found and wanted.search(self._screen.text) is not None

    def close(self) -> None:
        """Ends the program. Its terminal goes when nothing that it started has it open any more."""
        self.process.kill()
        self.process.wait()
        self._reader.join(FAREWELL)

    def _read(self) -> None:
        """Alone reads and alone closes our end: so nobody reads a descriptor that means another file."""
        while True:
            try:
                written = os.read(self._ours, CHUNK)
            except OSError:  # EIO: nobody has the other end open any more
                written = b""
            with self._news:
                self._news.notify_all()
                if not written:
                    self._closed = True
                    os.close(self._ours)
                    return
                reply = self._screen.feed(written)
            if reply:
                self._answer(reply)

    def _answer(self, reply: bytes) -> None:
        with suppress(OSError):  # who asked has gone
            os.write(self._ours, reply)
