"""Launch notes: what only we know of a start we made. They decorate a session by its process
identity or its id; a note without a session is shown nowhere."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from agentctl.errors import Gone, Malformed
from agentctl.store import db
from agentctl.truth import files
from agentctl.truth.model import Launch, ProcessIdentity
from agentctl.truth.sqlite_ro import Database


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
    with Database(path) as database:
        rows = database.rows(
            'select id, boot, pid, start, session_id, name, "group", spec, meta from launch'
        )
    try:
        return [_launch(row) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise Malformed(path, f"a launch note that makes no sense: {error}") from error


def _launch(row: tuple[Any, ...]) -> Launch:
    id_, boot, pid, start, session, name, group, spec, meta = row
    pairs = tuple((key, str(value)) for key, value in json.loads(meta).items())
    return Launch(id_, ProcessIdentity(boot, pid, start), session, name, group, spec, pairs)
