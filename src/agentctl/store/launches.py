"""Launch notes: what only we know of a start we made. They decorate a session by its process
identity or its id; a note without a session is shown nowhere."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from agentctl.errors import Forbidden, Gone, Malformed
from agentctl.store import db
from agentctl.truth import files
from agentctl.truth.model import Launch, ProcessIdentity
from agentctl.truth.sqlite_ro import Database

_ALL = 'select id, boot, pid, start, session_id, name, "group", spec, meta from launch'


def record(path: str, launch: Launch) -> None:
    connection = db.open_writable(path)
    try:
        connection.execute(
            "insert or replace into launch values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                launch.id,
                *launch.identity,
                launch.session_id,
                launch.name,
                launch.group,
                launch.spec,
                json.dumps(dict(launch.meta)),
                time.time(),
            ),
        )
    except (sqlite3.Error, UnicodeEncodeError) as error:
        raise Malformed(path, str(error)) from error
    finally:
        connection.close()


def recorded(path: str) -> list[Launch]:
    """All notes; none when there is no database. Raises SourceError when it cannot be read."""
    try:
        files.status(path)
    except Gone:
        return []
    try:
        with Database(path) as database:
            rows = database.rows(_ALL)
    except Forbidden:
        rows = _read_only(path)
    try:
        return [_launch(row) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise Malformed(path, f"a launch note that makes no sense: {error}") from error


def _read_only(path: str) -> list[tuple[Any, ...]]:
    """Where SQLite may not write its index beside the log, as in a read-only home. Without a log there
    is no writer, and the file is all there is. Raises SourceError."""
    if files.exists(f"{path}-wal") and files.status(f"{path}-wal").st_size:
        raise Forbidden(path, "its directory is read-only, and its log is not yet written back")
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = sqlite3.connect(f"file:{quoted}?mode=ro&immutable=1", uri=True)
    try:
        return connection.execute(_ALL).fetchall()
    except sqlite3.Error as error:
        raise Malformed(path, str(error)) from error
    finally:
        connection.close()


def _launch(row: tuple[Any, ...]) -> Launch:
    id_, boot, pid, start, session, name, group, spec, meta = row
    pairs = tuple((key, str(value)) for key, value in json.loads(meta).items())
    return Launch(id_, ProcessIdentity(boot, pid, start), session, name, group, spec, pairs)
