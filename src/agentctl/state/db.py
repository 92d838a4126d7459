"""Our database: SQLite in WAL mode, ordered migrations, private to the user."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from agentctl.errors import Forbidden, Malformed, Passing, SourceError, Unsupported
from agentctl.state import busy
from agentctl.system import private
from agentctl.system.files import status, translated
from agentctl.system.sqlite import Database, lenient_text

PATIENCE = 20.0  # seconds: writers hold it for microseconds, but there may be fifty of them
MUCH = 64 << 20  # bytes that are worth the work of giving them back
Place = tuple[int, int]
DAMAGED = (
    "to begin anew, delete it with its -wal and -shm: no session is lost, only what agentctl noted"
    " itself (names, groups, hooks, fuses, locks, history)"
)
_DAMAGE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)

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
    # what only people and `finish` need, as JSON: a new fact is no migration
    "alter table launch add column detail text not null default '{}'",
    "alter table launch add column ended_at real",
    "alter table launch add column exit_code integer",
    "alter table launch add column finished_at real",
    """
    create table lock (
        directory text not null,
        launch text not null default '', -- empty: a person's own
        boot text, pid integer, start integer, namespace text, -- who holds it; null for a person's own
        "by" text, reason text,
        created_at real not null, expires_at real,
        primary key (directory, launch)
    ) strict
    """,
    # autoincrement: a number that was told is never told again, also when its row is pruned
    """
    create table event (
        seq integer primary key autoincrement,
        type text not null,
        at real, seen_at real not null,
        adapter text, subject text, "group" text,
        body text not null default '{}' -- session, evidence, data
    ) strict
    """,
    "create index event_subject on event (adapter, subject, type)",
    "create index event_seen on event (seen_at)",
    # on each session; SQLite takes the type from the row of the maximum
    """
    create view last_word as
        select max(seq) as seq, type from event where type glob 'session.*' group by adapter, subject
    """,
    # who wants to be told of what; secrets are not among it
    """
    create table target (
        kind text not null, name text not null,
        events text not null, -- patterns, as JSON; the others are null for: all
        adapters text, groups text, outcomes text,
        primary key (kind, name)
    ) strict
    """,
    """
    create table outbox (
        id text primary key, -- of the delivery
        kind text not null, target text not null, url text,
        seq integer not null, -- of the event
        created_at real not null, due_at real not null,
        first_at real, attempted_at real, -- the first try, and the last
        attempt integer not null default 0,
        phase text not null default 'pending', -- then delivered, or dead
        error text, delivered_at real
    ) strict
    """,
    "create index outbox_phase on outbox (phase, due_at)",
    "create index outbox_seq on outbox (seq)",
    # Whoever tells of an event need not know who wants it: both are there, or neither. What became of a
    # delivery is told to nobody, or it would be told of that too.
    """
    create trigger event_wanted after insert on event
    when new.type not glob 'webhook.*' and new.type not glob 'notify.*'
    begin
        insert into outbox (id, kind, target, seq, created_at, due_at)
        select lower(hex(randomblob(16))), kind, name, new.seq, new.seen_at, new.seen_at
        from target
        where exists (select 1 from json_each(events) where new.type glob value)
        and (adapters is null or new.adapter in (select value from json_each(adapters)))
        and (groups is null or new."group" in (select value from json_each(groups)))
        and (outcomes is null or new.type <> 'session.stopped'
            or json_extract(new.body, '$.session.outcome') in (select value from json_each(outcomes)));
    end
    """,
    # Due by a clock that goes on while the machine sleeps and is never set; after a boot, by the time
    # of day.
    """
    create table fuse (
        id text primary key,
        directory text, -- one of these is what it is on
        adapter text, session_id text, launch text,
        cwd text, -- where its command runs
        label text,
        actions text not null, -- as JSON
        created_at real not null,
        boot text not null, due_boot real not null, due_at real not null,
        phase text not null default 'burning', -- then firing, then fired or failed; or cancelled
        claimed_at real, claimed_by text, -- as JSON: boot, pid, start, namespace
        results text, -- as JSON: of each action that is confirmed
        settled_at real,
        reason text, -- why it was cancelled
        cancelled_by text -- the launch that cancelled it: should that fail, it burns on
    ) strict
    """,
    "create index fuse_phase on fuse (phase, due_at)",
    # of a process that has got a session, that it has is the last word
    "drop view last_word",
    """
    create view last_word as
        select max(seq) as seq, type from (
            select seq, type, adapter, subject from event where type glob 'session.*'
            union all
            select seq, 'session.stopped', adapter, json_extract(body, '$.data.was') from event
            where type = 'session.identified'
        ) group by adapter, subject
    """,
)


def open_writable(path: str, patience: float = PATIENCE) -> sqlite3.Connection:
    """Create it if need be and bring it up to date. Raises SourceError, Untrusted where others may write
    to what we are about to believe."""
    try:
        private.make_private(path)
    except OSError as error:
        raise translated(error, path) from error
    private.check_home(os.path.dirname(path))
    try:
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None)
    except sqlite3.Error as error:
        raise answer(error, path) from error
    connection.text_factory = lenient_text
    try:
        _write_ahead(connection, path)
        connection.execute("pragma synchronous = normal")  # a power cut may cost the last note
        _migrate(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise answer(error, path) from error
    except SourceError:
        connection.close()
        raise
    return connection


def open_existing(path: str) -> sqlite3.Connection | None:
    """To read what is there: nothing is made, nothing brought up to date. None: there is none. It may
    write all the same: a reader that may not is refused while another makes the log, or its index."""
    if not private.present(path):
        return None
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        connection = sqlite3.connect(
            f"file:{quoted}?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None
        )
    except sqlite3.Error as error:
        raise answer(error, path) from error
    connection.text_factory = lenient_text
    return connection


@contextmanager
def reader(path: str) -> Iterator[Database | None]:
    """To read it, also where we may not write. None: there is none. Raises SourceError."""
    if not private.present(path):
        yield None
        return
    try:
        with Database(path) as database:
            yield database
    except Malformed as error:
        cause = error.__cause__
        if isinstance(cause, sqlite3.Error):
            raise answer(cause, path) from cause
        raise


def place(path: str) -> Place | None:
    """Which file is there now, by device and inode; None: none. Where it is another than before, what a
    connection that is still open writes, nobody will find."""
    try:
        found = status(path)
    except SourceError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def transaction(path: str, patience: float = PATIENCE) -> Iterator[sqlite3.Connection]:
    """All of it or nothing, one writer after the other: what is read inside is true until the end."""
    connection = open_writable(path, patience)
    try:
        with step(connection, path):
            yield connection
    finally:
        connection.close()


class Extent(NamedTuple):
    """Bytes of its file."""

    used: int
    free: int  # to be used again


def extent(connection: sqlite3.Connection) -> Extent:
    pages, free, each = (
        connection.execute(f"pragma {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return Extent((pages - free) * each, free * each)


def give_back(path: str, patience: float = PATIENCE) -> bool:
    """Gives the disk what it uses no more, where that is most of it and much: free pages are used again,
    but a file never shrinks by itself. Whether it did. Raises SourceError."""
    connection = open_writable(path, patience)
    try:
        used, free = extent(connection)
        if free < MUCH or free < used:
            return False
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.Error as error:
        raise answer(error, path) from error
    finally:
        connection.close()
    return True


@contextmanager
def step(connection: sqlite3.Connection, path: str) -> Iterator[None]:
    """A transaction on a connection that stays open. Raises SourceError."""
    try:
        busy.begin(connection, path)
        yield
        connection.execute("commit")
    except (sqlite3.Error, UnicodeEncodeError) as error:
        raise answer(error, path) from error
    finally:
        if connection.in_transaction:
            connection.rollback()


def answer(error: Exception, path: str) -> SourceError:
    """What SQLite says, in our words."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return busy.too_long(path)
    if code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return Passing(path, "no space left on its disk")
    if code & 0xFF in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    ):
        return Forbidden(path, str(error))
    if isinstance(error, UnicodeEncodeError):
        return Malformed(path, f"it cannot hold a text that is not UTF-8: {error.object!r}")
    return Malformed(path, str(error), DAMAGED if code & 0xFF in _DAMAGE else "")


def _write_ahead(connection: sqlite3.Connection, path: str) -> None:
    """The one statement that does not wait its turn: where two switch a new database at once, SQLite
    fails one of them at once, whatever its timeout."""
    busy.patiently(lambda: connection.execute("pragma journal_mode = wal"), path, PATIENCE)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("pragma user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    if version(connection) == len(MIGRATIONS):
        return
    busy.begin(connection, path)  # one migrator; the others wait and find it done
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
