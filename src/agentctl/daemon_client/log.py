"""Read the daemon's log: its last lines, and new ones as they come."""

from __future__ import annotations

import os

from agentctl.errors import Gone
from agentctl.light_typing import Iterator
from agentctl.system import files
from agentctl.system.files import translate_error

WHOLE = 1 << 22  # bytes: more than a log grows to


class Log:
    """A file that only grows, until it is renamed to `.1` and a new one begins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._inode = 0
        self._offset = 0  # bytes of that file that are read

    def last(self, number: int) -> list[bytes]:
        """Return the last lines. Raises Gone if there is no log."""
        lines = self.new()
        if len(lines) < number:
            lines = self._older() + lines
        return lines[-number:]

    def new(self) -> list[bytes]:
        """Return the whole lines since the last call. Raises Gone, Forbidden."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset = status.st_ino, 0
                file.seek(self._offset)
                whole, newline, _ = file.read(WHOLE).rpartition(b"\n")
        except OSError as error:
            raise translate_error(error, self.path) from error
        self._offset += len(whole) + len(newline)
        return whole.splitlines()

    def _older(self) -> list[bytes]:
        try:
            return files.read_tail(f"{self.path}.1", WHOLE).data.splitlines()
        except Gone:
            return []


def follow(log: Log) -> Iterator[list[bytes]]:
    """Yield new lines as they come, without end."""
    from agentctl.system.waiter import Watch

    with Watch() as watch:
        while True:
            if not watch.add_file(log.path):  # a new file may have grown before it was watched
                watch.wait()
            try:
                yield log.new()
            except Gone:  # no log yet, or it was just renamed
                pass
