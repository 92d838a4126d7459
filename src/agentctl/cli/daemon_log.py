"""`daemon logs`: the last lines of the daemon's log, and those that come."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from agentctl import text
from agentctl.daemon_client import start
from agentctl.errors import Gone, NotFound
from agentctl.system import files
from agentctl.system.files import translated

WHOLE = 1 << 22  # bytes: more than a log grows to


class Log:
    """A file that only grows, until it is put aside as `.1` and begun anew."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._inode = 0
        self._read = 0  # bytes of that one

    def last(self, number: int) -> list[bytes]:
        """Raises Gone where there is none."""
        told = self.new()
        if len(told) < number:
            told = self._older() + told
        return told[-number:]

    def new(self) -> list[bytes]:
        """Whole lines since we read last. Raises Gone, Forbidden."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._read:
                    self._inode, self._read = status.st_ino, 0
                file.seek(self._read)
                told, newline, _ = file.read(WHOLE).rpartition(b"\n")
        except OSError as error:
            raise translated(error, self.path) from error
        self._read += len(told) + len(newline)
        return told.splitlines()

    def _older(self) -> list[bytes]:
        try:
            return files.tail(f"{self.path}.1", WHOLE).data.splitlines()
        except Gone:
            return []


def show(environ: Mapping[str, str], number: int, *, follow: bool) -> int:
    log = Log(f"{start.home_of(environ)}/{start.LOG}")
    try:
        _print(log.last(number))
    except Gone as error:
        if not follow:
            raise NotFound(
                f"no daemon has written a log: {log.path}", "agentctl daemon start"
            ) from error
    return _follow(log) if follow else 0


def _follow(log: Log) -> int:
    """Until interrupted."""
    from agentctl.system.waiter import Watch

    with Watch() as watch:
        while True:
            if not watch.add_file(log.path):  # where that is news, it may have grown before we watched
                watch.wait()
            try:
                _print(log.new())
            except Gone:  # not yet, or just put aside
                pass


def _print(lines: list[bytes]) -> None:
    for line in lines:
        print(text.one_line(line.decode("utf-8", "replace")))
    sys.stdout.flush()
