"""Reads of other programs' files: bounded, never blocking, regular files only.

A session directory may hold a FIFO, a device or a 40 GB transcript; none of them may hang or fill
us. This is the one seam where an OSError on a file becomes an answer.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from typing import NamedTuple

from agentctl.errors import Exhausted, Forbidden, Gone, Malformed, Passing, SourceError

SMALL = 1 << 20  # a registry record, a lock, a job state: anything larger is not one
WINDOW = 1 << 16  # what a tail reads at first
WINDOW_CAP = 1 << 22  # and at most, when a single line is longer than that
NO_DESCRIPTOR = "no file descriptor left; raise the limit (ulimit -n)"


class Piece(NamedTuple):
    """Some bytes of a file, and what the file was when they were read."""

    path: str
    data: bytes
    offset: int  # of data in the file
    size: int
    modified: float

    @property
    def whole(self) -> bool:
        return self.offset == 0 and len(self.data) >= self.size


def whole(path: str, cap: int = SMALL) -> Piece:
    """All of a small file. Raises Malformed when it is larger than `cap`."""
    piece = head(path, cap)
    if piece.size > cap:
        raise Malformed(path, f"{piece.size} bytes, more than the {cap} such a file may have")
    return piece


def head(path: str, length: int) -> Piece:
    fd = _open(path)
    try:
        status = os.fstat(fd)
        return Piece(path, os.pread(fd, length, 0), 0, status.st_size, status.st_mtime)
    except OSError as error:
        raise translated(error, path) from error
    finally:
        os.close(fd)


def first_lines(path: str, length: int = WINDOW) -> Piece:
    """The first bytes; the window grows until it holds at least one whole line."""
    piece = head(path, length)
    while b"\n" not in piece.data and len(piece.data) < piece.size and length < WINDOW_CAP:
        length *= 8
        piece = head(path, length)
    return piece


def tail(path: str, length: int = WINDOW) -> Piece:
    """The last bytes, starting at a line. See `before`."""
    return before(path, None, length)


def before(path: str, end: int | None, length: int = WINDOW) -> Piece:
    """The bytes up to `end` (None: the end of the file), starting at a line; the window grows until
    it holds one whole line.

    Constant time for any size of file. `data` is empty if even the largest window has no line.
    """
    fd = _open(path)
    try:
        status = os.fstat(fd)
        stop = status.st_size if end is None else end
        while True:
            start = max(0, stop - length)
            data = os.pread(fd, stop - start, start)
            if start:
                first = data.find(b"\n") + 1
                # a window without a second line end holds no complete line
                if (not first or data.find(b"\n", first) < 0) and length < WINDOW_CAP:
                    length *= 8
                    continue
                start, data = (start + first, data[first:]) if first else (stop, b"")
            return Piece(path, data, start, status.st_size, status.st_mtime)
    except OSError as error:
        raise translated(error, path) from error
    finally:
        os.close(fd)


def names(directory: str) -> list[str]:
    """Entries of a directory, unsorted."""
    try:
        return os.listdir(directory)
    except OSError as error:
        raise translated(error, directory) from error


def status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise translated(error, path) from error
    except ValueError as error:  # an embedded NUL
        raise Malformed(repr(path), str(error)) from error


def inode(path: str) -> tuple[int, int] | None:
    """Device and number of whatever is there; None: nothing, or that cannot be told."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def readable(path: str) -> None:
    """Raises what reading it would, without opening it. For databases: who closes one of their files
    gives up every lock that this process has on it, those of SQLite in another thread included, as
    POSIX wants it; and a database that believes itself locked is soon a broken one."""
    if not modes.S_ISREG(status(path).st_mode):
        raise Malformed(path, "not a regular file")
    if not os.access(path, os.R_OK):
        raise Forbidden(path, "permission denied")


def exists(path: str) -> bool:
    """Whether it is there. Raises Forbidden where that cannot be told."""
    try:
        status(path)
    except Gone:
        return False
    return True


def _open(path: str) -> int:
    try:
        # stat first: opening a device can have effects of its own
        if not modes.S_ISREG(os.stat(path).st_mode):
            raise Malformed(path, "not a regular file")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise translated(error, path) from error
    except ValueError as error:  # an embedded NUL: a path made of somebody's data
        raise Malformed(repr(path), str(error)) from error
    if not modes.S_ISREG(os.fstat(fd).st_mode):  # it was swapped in between
        os.close(fd)
        raise Malformed(path, "not a regular file")
    return fd


def translated(error: OSError, source: str) -> SourceError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Gone(source, "no such file")
    if isinstance(error, PermissionError):
        return Forbidden(source, "permission denied")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Passing(source, "no space left on its disk")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(source, NO_DESCRIPTOR)
    return Malformed(source, error.strerror or str(error))
