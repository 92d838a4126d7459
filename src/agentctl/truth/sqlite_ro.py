"""Other programs' SQLite databases, opened `mode=ro`.

Never `immutable=1`: it ignores the write-ahead log, in which all the latest rows are. `mode=ro`
takes only a shared lock, writes no page and does not checkpoint; a busy writer makes us wait at most
`PATIENCE`. `sqlite3` is imported here and only when a database is opened: that costs 3 ms.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentctl.errors import Forbidden, Malformed, SourceError, Unsupported
from agentctl.truth import files

if TYPE_CHECKING:
    import sqlite3

    from agentctl.truth.look import Look

Answered = dict[tuple[str, tuple[object, ...]], list[tuple[Any, ...]]]  # by query and parameters

PATIENCE = 0.25  # seconds for a writer to finish
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


def _header(index: str) -> bytes:
    """Through a descriptor that stays open for as long as it is the same file: to close it would give
    up the locks that SQLite has on it in other threads (see `files.readable`)."""
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


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def asked(path: str, look: Look) -> Database:
    """A live session's database; whoever looks again and again remembers what it said. Raises
    SourceError, now or when it is asked."""
    return Database(path, look.warm.answered(path) if look.warm is not None else None)


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
