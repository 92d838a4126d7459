"""Reads of other programs' files: bounded, never blocking, regular files only.

A session directory may hold a FIFO, a device or a 40 GB transcript; none of them may hang us or fill our
memory. This is the only place where an OSError on a file becomes a SourceError.
"""

from __future__ import annotations

import errno
import os
import stat as modes

from agentctl.errors import Exhausted, Forbidden, Gone, Malformed, SourceError, Temporary
from agentctl.light_typing import NamedTuple

SMALL = 1 << 20  # a registry record, a lock, a job state: anything larger is not one
WINDOW = 1 << 16  # bytes that a tail reads at first
WINDOW_CAP = 1 << 22  # bytes that a tail reads at most, if a single line is longer
NO_DESCRIPTOR = "no file descriptor left; raise the limit (ulimit -n)"


class Piece(NamedTuple):
    """Some bytes of a file, and its size and time when they were read."""

    path: str
    data: bytes
    offset: int  # of data in the file
    size: int
    mtime: float

    @property
    def is_whole(self) -> bool:
        return self.offset == 0 and len(self.data) >= self.size


def read_file(path: str, cap: int = SMALL) -> Piece:
    """Return all of a small file. Raises Malformed if it is larger than `cap`, else SourceError."""
    piece = read_head(path, cap)
    if piece.size > cap:
        raise Malformed(path, f"{piece.size} bytes, more than the {cap} such a file may have")
    return piece


def read_head(path: str, length: int) -> Piece:
    """Return the first bytes. Raises SourceError."""
    fd = _open(path)
    try:
        status = os.fstat(fd)
        return Piece(path, os.pread(fd, length, 0), 0, status.st_size, status.st_mtime)
    except OSError as error:
        raise translate_error(error, path) from error
    finally:
        os.close(fd)


def read_first_lines(path: str, length: int = WINDOW) -> Piece:
    """Return the first bytes; the window grows until it holds a whole line. Raises SourceError."""
    piece = read_head(path, length)
    while b"\n" not in piece.data and len(piece.data) < piece.size and length < WINDOW_CAP:
        length *= 8
        piece = read_head(path, length)
    return piece


def read_tail(path: str, length: int = WINDOW) -> Piece:
    """Return the last bytes, starting at a line. See `read_before`."""
    return read_before(path, None, length)


def read_before(path: str, end: int | None, length: int = WINDOW) -> Piece:
    """Return the bytes up to `end` (None: the end of the file), starting at a line; the window grows
    until it holds a whole line. Raises SourceError.

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
        raise translate_error(error, path) from error
    finally:
        os.close(fd)


def list_names(directory: str) -> list[str]:
    """Return the entries of a directory, unsorted. Raises SourceError."""
    try:
        return os.listdir(directory)
    except OSError as error:
        raise translate_error(error, directory) from error


def read_status(path: str) -> os.stat_result:
    """Return the stat of a file. Raises SourceError."""
    try:
        return os.stat(path)
    except OSError as error:
        raise translate_error(error, path) from error
    except ValueError as error:  # an embedded NUL
        raise Malformed(repr(path), str(error)) from error


def read_inode(path: str) -> tuple[int, int] | None:
    """Return device and inode of a path; None if it does not exist or cannot be read."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def check_readable(path: str) -> None:
    """Raise the SourceError that reading would raise, without opening the file. For databases: by POSIX,
    closing any descriptor of a file drops all locks of this process on it, those of SQLite in another
    thread included. SQLite would write without its lock and break the database."""
    if not modes.S_ISREG(read_status(path).st_mode):
        raise Malformed(path, "not a regular file")
    if not os.access(path, os.R_OK):
        raise Forbidden(path, "permission denied")


def is_present(path: str) -> bool:
    """Return whether the file exists. Raises SourceError if that cannot be read."""
    try:
        read_status(path)
    except Gone:
        return False
    return True


def _open(path: str) -> int:
    try:
        # stat first: opening a device can have side effects
        if not modes.S_ISREG(os.stat(path).st_mode):
            raise Malformed(path, "not a regular file")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise translate_error(error, path) from error
    except ValueError as error:  # an embedded NUL, in a path that an agent's file names
        raise Malformed(repr(path), str(error)) from error
    if not modes.S_ISREG(os.fstat(fd).st_mode):  # the file was replaced since stat
        os.close(fd)
        raise Malformed(path, "not a regular file")
    return fd


def translate_error(error: OSError, source: str) -> SourceError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Gone(source, "no such file")
    if isinstance(error, PermissionError):
        return Forbidden(source, "permission denied")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Temporary(source, "no space left on its disk")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(source, NO_DESCRIPTOR)
    return Malformed(source, error.strerror or str(error))
