"""Our database: SQLite in WAL mode, ordered migrations, private to the user."""

from __future__ import annotations

import sqlite3
import time

from agentctl.errors import Malformed, SourceError, Unsupported
from agentctl.store.private import make_private
from agentctl.truth.files import translated

PATIENCE = 5.0  # seconds: writers hold it for microseconds, but there may be fifty of them
BEAT = 0.005

# Each runs once, in order; `pragma user_version` counts those that have. Never edit one: add one.
MIGRATIONS = (
    """
    create table launch (
        id text primary key,
        boot text not null, pid integer not null, start integer not null,
        session_id text, name text, "group" text, spec text,
        meta text not null default '{}',
        created_at real not null
    ) strict
    """,
)


def open_writable(path: str) -> sqlite3.Connection:
    """Create it if need be and bring it up to date."""
    try:
        make_private(path)
    except OSError as error:
        raise translated(error, path) from error
    connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
    try:
        _write_ahead(connection)
        _migrate(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise Malformed(path, str(error)) from error
    except SourceError:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """The one statement that does not wait its turn: where two switch a new database at once, SQLite
    fails one of them at once, whatever its timeout."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(BEAT)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    if version(connection) == len(MIGRATIONS):
        return
    connection.execute("begin immediate")  # one migrator; the others wait and find it done
    try:
        done = version(connection)
        if done > len(MIGRATIONS):
            raise _too_new(path)
        for migration in MIGRATIONS[done:]:
            connection.execute(migration)
        connection.execute(f"pragma user_version = {len(MIGRATIONS)}")
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")


def _too_new(path: str) -> SourceError:
    return Unsupported(path, "written by a newer agentctl")
