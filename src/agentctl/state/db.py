"""Our database: SQLite in WAL mode, ordered migrations, private to the user."""

from __future__ import annotations

import _sqlite3 as sqlite3  # see system/sqlite
import os
from contextlib import contextmanager

from agentctl.errors import Forbidden, Malformed, SourceError, Temporary, Unsupported
from agentctl.light_typing import Any, Iterator, Mapping, NamedTuple, Sequence
from agentctl.state import busy, schema
from agentctl.system import permissions
from agentctl.system.files import read_status, translate_error
from agentctl.system.sqlite import Database, KnownRows, decode_text, file_uri

PATIENCE = 20.0  # seconds: each writer takes microseconds, but there may be fifty of them
MUCH = 64 << 20  # bytes: with less than this free, shrinking the file is not worth the work
FileId = tuple[int, int]  # device and inode
Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]
DAMAGED = (
    "to start again, delete it with its -wal and -shm: no session is lost, only what agentctl stored"
    " itself (names, groups, hooks, fuses, locks, history)"
)
_DAMAGE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


def open_writable(path: str, patience: float = PATIENCE) -> sqlite3.Connection:
    """Open the database; create it or migrate it if necessary. Raises SourceError, and Untrusted if
    other users may write to our files."""
    try:
        permissions.make_private(path)
    except OSError as error:
        raise translate_error(error, path) from error
    permissions.check_home(os.path.dirname(path))
    try:
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
    except sqlite3.Error as error:
        raise translate_sqlite_error(error, path) from error
    connection.text_factory = decode_text
    try:
        _write_ahead(connection, path)
        connection.execute("pragma synchronous = normal")  # a power cut may lose the last write
        _migrate(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise translate_sqlite_error(error, path) from error
    except SourceError:
        connection.close()
        raise
    return connection


def open_existing(path: str, patience: float = PATIENCE) -> sqlite3.Connection | None:
    """Open the database without creating or migrating it. Return None if there is none. The connection
    is writable: SQLite refuses a read-only one while another process creates the log or its index.
    Raises SourceError."""
    if not permissions.is_trusted_file(path):
        return None
    try:
        connection = sqlite3.connect(
            file_uri(path, "mode=rw"), uri=True, timeout=patience, isolation_level=None
        )
    except sqlite3.Error as error:
        raise translate_sqlite_error(error, path) from error
    connection.text_factory = decode_text
    return connection


@contextmanager
def open_reader(path: str, answers: KnownRows | None = None) -> Iterator[Database | None]:
    """Open the database where we may only read, with the rows of earlier queries. Yield None if there
    is none. Raises SourceError."""
    if not permissions.is_trusted_file(path):
        yield None
        return
    try:
        with Database(path, answers) as database:
            yield database
    except Malformed as error:
        cause = error.__cause__
        if isinstance(cause, sqlite3.Error):
            raise translate_sqlite_error(cause, path) from cause
        raise


def read_rows(path: str, query: str, parameters: Parameters = ()) -> list[Row]:
    """Return the rows of a query; none if there is no database or no such table. Raises SourceError."""
    connection = open_existing(path)
    if connection is None:
        return []
    try:
        return select_rows(connection, path, query, parameters)
    finally:
        connection.close()


def select_rows(
    connection: sqlite3.Connection, path: str, query: str, parameters: Parameters = ()
) -> list[Row]:
    """Do the same as `read_rows` on a connection that stays open, which takes a tenth of the time."""
    try:
        return connection.execute(query, parameters).fetchall()
    except sqlite3.Error as error:
        if "no such table" in str(error):  # an older agentctl made this database
            return []
        raise translate_sqlite_error(error, path) from error


def read_table(
    path: str, table: str, query: str, parameters: Sequence[object] = (), *, column: str = ""
) -> list[Row]:
    """Do the same as `read_rows` where we may only read. Return no rows if the table does not have this
    column. Raises SourceError."""
    with open_reader(path) as database:
        columns = database.columns(table) if database is not None else frozenset()
        if database is None or not columns or (column and column not in columns):
            return []  # there is none, or an older agentctl made it
        return database.rows(query, parameters)


def read_file_id(path: str) -> FileId | None:
    """Return which file is at this path now; None if there is none. If the file was replaced, an open
    connection still writes to the old one, where no process will read it."""
    try:
        status = read_status(path)
    except SourceError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def transaction(path: str, patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
    """Open the database and run one write transaction. Only one runs at a time: what it reads stays true
    until it ends. Raises SourceError."""
    connection = open_writable(path, patience)
    try:
        with begin_transaction(connection, path):
            yield connection
    finally:
        connection.close()


class Extent(NamedTuple):
    """Bytes of the database file."""

    used: int
    free: int  # SQLite uses them again


def measure_file(connection: sqlite3.Connection) -> Extent:
    pages, free, page_size = (
        connection.execute(f"pragma {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return Extent((pages - free) * page_size, free * page_size)


def shrink_file(path: str, patience: float = PATIENCE) -> bool:
    """Give free pages back to the disk if they are most of the file and more than MUCH. SQLite uses free
    pages again, but never shrinks a file by itself. Return True if it did. Raises SourceError."""
    connection = open_existing(path, patience)
    if connection is None:
        return False
    try:
        used, free = measure_file(connection)
        if free < MUCH or free < used:
            return False
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.Error as error:
        raise translate_sqlite_error(error, path) from error
    finally:
        connection.close()
    return True


@contextmanager
def begin_transaction(connection: sqlite3.Connection, path: str) -> Iterator[None]:
    """Run one write transaction on a connection that stays open. Raises SourceError."""
    try:
        busy.begin_write(connection, path)
        yield
        connection.execute("commit")
    except (sqlite3.Error, UnicodeEncodeError) as error:
        raise translate_sqlite_error(error, path) from error
    finally:
        if connection.in_transaction:
            connection.rollback()


def translate_sqlite_error(error: Exception, path: str) -> SourceError:
    """Return the SourceError for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return busy.busy_error(path)
    if code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return Temporary(path, "no space left on its disk")
    if code & 0xFF in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    ):
        return Forbidden(path, str(error))
    if isinstance(error, UnicodeEncodeError):
        return Malformed(path, f"cannot store a text that is not UTF-8: {error.object!r}")
    return Malformed(path, str(error), DAMAGED if code & 0xFF in _DAMAGE else "")


def _write_ahead(connection: sqlite3.Connection, path: str) -> None:
    """Switch to WAL mode. Two processes may do this to a new database at the same time: SQLite then
    fails one of them without waiting, so we retry."""
    busy.retry_while_busy(lambda: connection.execute("pragma journal_mode = wal"), path, PATIENCE)


def read_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    if read_version(connection) == len(schema.MIGRATIONS):
        return
    busy.begin_write(connection, path)  # one process migrates; the others wait, then have nothing to do
    try:
        version = read_version(connection)
        if version > len(schema.MIGRATIONS):
            raise Unsupported(path, "written by a newer agentctl")
        for migration in schema.MIGRATIONS[version:]:
            connection.execute(migration)
        connection.execute(f"pragma user_version = {len(schema.MIGRATIONS)}")
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def path_to_text(path: str) -> str:
    """Return the path as valid UTF-8. A byte that is not UTF-8 becomes NUL and two hex digits: no path
    holds a NUL."""
    return "".join(f"\0{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in path)


def text_to_path(text: str) -> str:
    """Undo `path_to_text`."""
    first, *rest = text.split("\0")
    return first + "".join(chr(0xDC00 + int(part[:2], 16)) + part[2:] for part in rest)


def is_utf8(text: str) -> bool:
    """Return False if the text has bytes that are not UTF-8: arguments, variables and paths may."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
