"""Write `daemon.log`: one line a message, `TIME LEVEL part: message`; two files of 1 MiB each at most.

Standard output and error of a detached daemon go there, too: so the log holds what the interpreter
prints when it dies.
"""

from __future__ import annotations

import logging
import os
import sys

from agentctl.system.clock import format_rfc3339
from agentctl.text import clean_line

NAME = "daemon.log"
CAP = 1 << 20  # bytes
TRACEBACK = 40  # lines


class Format(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        part = record.name.rpartition(".")[2]
        lines = [
            clean_line(
                f"{format_rfc3339(record.created)} {record.levelname} {part}: {record.getMessage()}"
            )
        ]
        if record.exc_info:
            lines += [f"  | {clean_line(line)}" for line in self._traceback(record)[-TRACEBACK:]]
        return "\n".join(lines) + "\n"

    def _traceback(self, record: logging.LogRecord) -> list[str]:
        return self.formatException(record.exc_info).splitlines() if record.exc_info else []


class Log(logging.Handler):
    """Appends to the file. A full file is renamed to `.1`, and a new one begins."""

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
                self._rotate()
            os.write(self._fd, line)
        except Exception:  # noqa: BLE001 - a full disk, a bad message: the log may not end the daemon
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop a line that cannot be written: the place to report it is full as well."""

    def _rotate(self) -> None:
        try:
            if os.path.samestat(os.fstat(self._fd), os.stat(self.path)):
                os.rename(self.path, f"{self.path}.1")
        except FileNotFoundError:  # the file was deleted or moved
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


def set_up(home: str, *, detached: bool) -> None:
    """Send all that this process logs to the file; in the foreground to standard error, too."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False
    root.addHandler(Log(home, streams=detached))
    if not detached:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.terminator = ""
        terminal.setFormatter(Format())
        root.addHandler(terminal)
