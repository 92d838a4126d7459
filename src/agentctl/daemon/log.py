"""`daemon.log`: one line an event, `TIME LEVEL part: message`; at most two files of a mebibyte each.

The streams of a daemon that nobody sits before are the log too: what the interpreter itself says when
it dies is there to read.
"""

from __future__ import annotations

import logging
import os
import sys

from agentctl.system.clock import rfc3339
from agentctl.text import one_line

NAME = "daemon.log"
CAP = 1 << 20
LINES = 40  # of a traceback


class Format(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        part = record.name.rpartition(".")[2]
        told = [one_line(f"{rfc3339(record.created)} {record.levelname} {part}: {record.getMessage()}")]
        if record.exc_info:
            told += [f"  | {one_line(line)}" for line in self._traceback(record)[-LINES:]]
        return "\n".join(told) + "\n"

    def _traceback(self, record: logging.LogRecord) -> list[str]:
        return self.formatException(record.exc_info).splitlines() if record.exc_info else []


class Log(logging.Handler):
    """Appends; begins anew when the file is full, and keeps the one before as `.1`."""

    def __init__(self, home: str, *, streams: bool, cap: int = CAP) -> None:
        super().__init__()
        self.path = f"{home}/{NAME}"
        self._cap = cap
        self._streams = streams  # standard output and error are this file
        self._fd = -1
        self.setFormatter(Format())
        self._open()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode("utf-8", "backslashreplace")
            if os.fstat(self._fd).st_size + len(line) > self._cap:
                self._turn()
            os.write(self._fd, line)
        except Exception:  # noqa: BLE001 - a full disk, a bad message: the log may not end the daemon
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's word
        """A line that cannot be written is lost; where to say so is full as well."""

    def _turn(self) -> None:
        try:
            if os.path.samestat(os.fstat(self._fd), os.stat(self.path)):
                os.rename(self.path, f"{self.path}.1")
        except FileNotFoundError:  # somebody has taken it away: begin anew
            pass
        self._open()

    def _open(self) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        if self._streams:
            os.dup2(fd, 1)
            os.dup2(fd, 2)


def begin(home: str, *, detached: bool) -> None:
    """All that is logged in this process goes there; before a person's eyes also to standard error."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False
    root.addHandler(Log(home, streams=detached))
    if not detached:
        shown = logging.StreamHandler(sys.stderr)
        shown.terminator = ""
        shown.setFormatter(Format())
        root.addHandler(shown)
