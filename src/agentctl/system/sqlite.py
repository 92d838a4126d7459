"""Other programs' SQLite databases, opened `mode=ro`.

Never `immutable=1`: it ignores the write-ahead log, in which all the latest rows are. `mode=ro`
takes only a shared lock, writes no page and does not checkpoint; a busy writer makes us wait at most
`PATIENCE`. What is in another mount namespace is read from a copy (`sqlite_copy`). `sqlite3` is
imported here and there, and only when a database is opened: that costs 3 ms.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentctl.errors import Forbidden, Malformed, SourceError, Unsupported
from agentctl.system import files

if TYPE_CHECKING:
    import sqlite3

Answered = dict[tuple[str, tuple[object, ...]], list[tuple[Any, ...]]]  # by query and parameters

PATIENCE = 0.25  # seconds for a writer to finish
PROC = "/proc/"
INDEX_HEADER = 48  # bytes: of the log's index, the part that each commit changes
_INDEXES: dict[str, int] = {}  # descriptors, by path
_MUTEX = _thread.allocate_lock()


def stamp(path: str) -> tuple[tuple[object, ...], float] | None:
    """All that decides what a reader of this database sees, and when it last changed. None: a part
    of it cannot be told.

    Whatever is committed is written, to the file or to its write-ahead log, and so moves the time of
    one. In the log it counts only once the log's index says so, which may be later (a slow disk) and
    moves no time, the index being memory that the writers share: hence the bytes of its header, in
    which each commit leaves a count and a checksum. An empty log, which a mere reader may have made,
    says nothing, and neither does its index.
    """
    try:
        main, log = files.status(path), f"{path}-wal"
        logged = files.status(log) if files.exists(log) else None
        if logged is None or not logged.st_size:
            return _mark(main), main.st_mtime
        header = _header(f"{path}-shm")
    except SourceError:
        return None
    return (*_mark(main), *_mark(logged), header), max(main.st_mtime, logged.st_mtime)


def is_elsewhere(path: str) -> bool:
    """Whether SQLite would open other files than those at this path. It resolves links as text, so that
    a path below /proc/PID/root leads it into our own mount namespace."""
    if not path.startswith(PROC):
        return False
    here = os.path.realpath(path)
    return not all(_is_same(f"{path}{part}", f"{here}{part}") for part in ("", "-wal", "-shm"))


def _is_same(path: str, other: str) -> bool:
    """One file, or both absent. Raises SourceError where that cannot be told."""
    there, here = (files.status(p) if files.exists(p) else None for p in (path, other))
    if there is None or here is None:
        return there is here
    return os.path.samestat(there, here)


def _header(index: str) -> bytes:
    """Through a descriptor that stays open for as long as it is the same file: to close it would give
    up the locks that SQLite has on it in other threads (see `files.readable`). Not in a container: there
    SQLite has none, and an open file would keep the container's disk busy."""
    if index.startswith(PROC):
        return files.head(index, INDEX_HEADER).data
    files.readable(index)
    try:
        with _MUTEX:
            fd = _INDEXES.get(index)
            if fd is None or not os.path.samestat(os.fstat(fd), os.stat(index)):
                fresh = os.open(index, os.O_RDONLY | os.O_NONBLOCK)
                if fd is not None:
                    os.close(fd)
                fd = _INDEXES[index] = fresh
            return os.pread(fd, INDEX_HEADER, 0)
    except OSError as error:
        raise files.translated(error, index) from error


def _mark(status: os.stat_result) -> tuple[int, int, int, int]:
    # the device, too: below /proc/PID/root the same path may be another container's later
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def lenient_text(raw: bytes) -> str:
    """A text as SQLite gives it. It stores any bytes as text: one that is not UTF-8 must not cost the
    other rows."""
    return raw.decode("utf-8", "replace")


class Database:
    """One read-only connection; use as a context manager. `known` is what it has answered before, if it
    says the same since: where all is known, it is not even opened."""

    def __init__(self, path: str, known: Answered | None = None) -> None:
        self.path = path
        self._known = known
        self._connection = self._opened() if known is None else None

    def _opened(self) -> sqlite3.Connection:
        import sqlite3

        path = self.path
        files.readable(path)  # the errors of files.py for: absent, forbidden, not a regular file
        if is_elsewhere(path):
            from agentctl.system import sqlite_copy  # for containers

            return sqlite_copy.connect(path)
        quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        try:
            return sqlite3.connect(
                f"file:{quoted}?mode=ro", uri=True, timeout=PATIENCE, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._known is None:
            return self._rows(query, parameters)
        key = (query, tuple(parameters))
        if key not in self._known:
            self._known[key] = self._rows(query, parameters)
        return self._known[key]

    def _rows(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        import sqlite3

        if self._connection is None:
            self._connection = self._opened()
        try:
            try:
                return self._connection.execute(query, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "decode to UTF-8" not in str(error):
                    raise
                self._connection.text_factory = lenient_text  # slower, so only where it is needed
                return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def columns(self, table: str) -> frozenset[str]:
        """Names of a table's columns; empty when there is no such table."""
        return frozenset(row[1] for row in self.rows(f'pragma table_info("{table}")'))

    def _translated(self, error: sqlite3.Error) -> SourceError:
        text = str(error)
        if "no such table" in text or "no such column" in text:
            return Unsupported(self.path, f"{text}: a schema we do not know")
        if "unable to open" in text or "readonly database" in text or "authorization" in text:
            return Forbidden(self.path, text)
        return Malformed(self.path, text)
