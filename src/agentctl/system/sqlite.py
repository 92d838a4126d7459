"""Other programs' SQLite databases, opened `mode=ro`.

Never `immutable=1`: it ignores the write-ahead log, which has the latest rows. `mode=ro` writes no page
and does not checkpoint; a busy writer makes us wait at most `PATIENCE`. While a process has the database
open, we take only shared locks. The first reader rebuilds the log's index under exclusive locks,
and so do we: an OpenCode that starts in these milliseconds fails. A database in another mount namespace
is read from a copy (`sqlite_copy`).

The part of `sqlite3` in C is all that we use, and only when a database is opened. The rest of `sqlite3`
converts dates, and imports `datetime` for it.
"""

from __future__ import annotations

import _thread
import os

from agentctl.errors import Forbidden, Malformed, SourceError, Unsupported
from agentctl.light_typing import TYPE_CHECKING, Any, Callable, Sequence, TypeVar
from agentctl.system import files

if TYPE_CHECKING:
    import _sqlite3 as sqlite3

Value = TypeVar("Value")
# what was made of each row, by reader, query and parameters
KnownRows = dict[tuple[Callable[..., Any], str, tuple[object, ...]], list[Any]]

PATIENCE = 0.25  # seconds for a writer to finish
PROC = "/proc/"
INDEX_HEADER = 48  # bytes of the log's index that each commit changes
_INDEXES: dict[str, int] = {}  # descriptors, by path
_MUTEX = _thread.allocate_lock()


def read_stamp(path: str) -> tuple[tuple[object, ...], float] | None:
    """Return a stamp of all that decides what a reader of this database sees, and when it last changed;
    None if a part cannot be read.

    A commit is written to the file or to its write-ahead log, and so changes the time of one. In the
    log it counts only once the log's index says so, which may be later (a slow disk) and changes no
    time, since the index is memory that the writers share. So the stamp includes the header of the
    index, where each commit leaves a count and a checksum. An empty log, which a reader may have made,
    says nothing, and neither does its index.
    """
    try:
        main, log = files.read_status(path), f"{path}-wal"
        log_status = files.read_status(log) if files.is_present(log) else None
        if log_status is None or not log_status.st_size:
            return _mark(main), main.st_mtime
        header = _read_header(f"{path}-shm")
    except SourceError:
        return None
    return (*_mark(main), *_mark(log_status), header), max(main.st_mtime, log_status.st_mtime)


def is_elsewhere(path: str) -> bool:
    """Return whether SQLite would open other files than those at this path. It resolves links as text,
    so a path below /proc/PID/root leads it into our own mount namespace. Raises SourceError."""
    if not path.startswith(PROC):
        return False
    here = os.path.realpath(path)
    return not all(_is_same(f"{path}{part}", f"{here}{part}") for part in ("", "-wal", "-shm"))


def _is_same(path: str, other: str) -> bool:
    """Return whether both are one file, or both absent. Raises SourceError."""
    there, here = (files.read_status(p) if files.is_present(p) else None for p in (path, other))
    if there is None or here is None:
        return there is here
    return os.path.samestat(there, here)


def _read_header(index: str) -> bytes:
    """Read the index header through a descriptor that stays open while the file is the same. Closing
    it would drop the locks that SQLite has on it in other threads (see `files.check_readable`). Not in a
    container: SQLite has no locks there, and an open file would keep its disk busy."""
    if index.startswith(PROC):
        return files.read_head(index, INDEX_HEADER).data
    files.check_readable(index)
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
        raise files.translate_error(error, index) from error


def _mark(status: os.stat_result) -> tuple[int, int, int, int]:
    # with the device: below /proc/PID/root the same path may be another container's later
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def file_uri(path: str, options: str) -> str:
    """Return the URI by which SQLite opens this file with these options."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?{options}"


def decode_text(raw: bytes) -> str:
    """Return a text value, with bad UTF-8 replaced. SQLite stores any bytes as text, and one bad value
    must not cost the other rows."""
    return raw.decode("utf-8", "replace")


class Database:
    """One read-only connection; use as a context manager. `answers` holds the rows of earlier queries,
    if the database is the same: if it has them all, the database is not opened."""

    def __init__(self, path: str, answers: KnownRows | None = None) -> None:
        self.path = path
        self._answers = answers
        self._connection = self._connect() if answers is None else None

    def _connect(self) -> sqlite3.Connection:
        import _sqlite3 as sqlite3

        path = self.path
        files.check_readable(path)  # raises for: absent, forbidden, not a regular file
        if is_elsewhere(path):
            from agentctl.system import sqlite_copy  # for containers

            return sqlite_copy.connect_copy(path)
        try:
            return sqlite3.connect(
                file_uri(path, "mode=ro"), uri=True, timeout=PATIENCE, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._translate_error(error) from error

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Raises SourceError."""
        return self.read_rows(tuple, query, parameters)

    def read_rows(
        self, read: Callable[[Any], Value], query: str, parameters: Sequence[object] = ()
    ) -> list[Value]:
        """Return what `read` makes of each row of a query. Raises SourceError."""
        answers = {} if self._answers is None else self._answers
        key = (read, query, tuple(parameters))
        if key not in answers:
            answers[key] = [read(row) for row in self._fetch(query, parameters)]
        return answers[key]

    def _fetch(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        import _sqlite3 as sqlite3

        if self._connection is None:
            self._connection = self._connect()
        try:
            try:
                return self._connection.execute(query, parameters).fetchall()
            except sqlite3.OperationalError as error:
                if "decode to UTF-8" not in str(error):
                    raise
                self._connection.text_factory = decode_text  # slower, so only if needed
                return self._connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._translate_error(error) from error

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; empty if there is no such table. Raises SourceError."""
        return frozenset(row[1] for row in self.rows(f'pragma table_info("{table}")'))

    def _translate_error(self, error: sqlite3.Error) -> SourceError:
        text = str(error)
        if "no such table" in text or "no such column" in text:
            return Unsupported(self.path, f"{text}: a schema we do not know")
        if "unable to open" in text or "readonly database" in text or "authorization" in text:
            return Forbidden(self.path, text)
        return Malformed(self.path, text)
