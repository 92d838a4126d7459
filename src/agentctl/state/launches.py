"""Launch notes: what only we know of a start we made. They decorate a session by its process identity
or its id. What becomes of a note without a session: `truth/labels.py`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from agentctl.errors import Forbidden, Gone, Malformed, Passing, SourceError, Untrusted
from agentctl.state import db
from agentctl.system import files, jsonl, private
from agentctl.system.identity import ProcessIdentity
from agentctl.system.sqlite import lenient_text
from agentctl.truth.model import Exit, HookRun, Launch, Worktree

_ALL = (
    'select id, boot, pid, start, session_id, name, "group", spec, meta, detail, created_at, ended_at,'
    " exit_code from launch order by created_at"
)
_BEFORE_DETAIL = _ALL.replace("detail", "'{}'").replace("ended_at", "null").replace("exit_code", "null")


def recorded(path: str) -> list[Launch]:
    """All notes, oldest first; none when there is no database. Raises SourceError."""
    try:
        with db.reader(path) as database:
            have = database.columns("launch") if database is not None else frozenset()
            if database is None or not have:
                return []  # also one without tables: the disk was full, or the launcher died just then
            rows = database.rows(_ALL if "detail" in have else _BEFORE_DETAIL)
    except (Untrusted, Passing):
        raise
    except Forbidden:
        rows = _read_only(path)
    try:
        return [_launch(row, path) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise Malformed(path, f"a launch note that makes no sense: {error}", db.DAMAGED) from error


def noted(path: str, launch_id: str) -> Launch | None:
    """Raises SourceError."""
    return next((note for note in recorded(path) if note.id == launch_id), None)


def folder(path: str, launch_id: str) -> str:
    """Where a launch keeps its prompt, its output and how it ended."""
    return f"{path.rpartition('/')[0]}/launches/{launch_id}"


def exit_record(path: str, launch_id: str) -> Exit | None:
    """What the shim wrote down when the agent ended. Raises SourceError, but not for its absence."""
    source = f"{folder(path, launch_id)}/exit"
    if not private.present(source):
        return None
    try:
        told = jsonl.parse(files.whole(source).data)
    except Gone:
        return None
    code, at = (told or {}).get("code"), (told or {}).get("at")
    if not isinstance(code, int) or not isinstance(at, float):
        raise Malformed(source, "not an exit record")
    back = (told or {}).get("clock_back_s")
    return Exit(code, at, source, back if isinstance(back, float) else 0.0)


def _read_only(path: str) -> list[tuple[Any, ...]]:
    """Where SQLite may not write its index beside the log, as in a read-only home. Without a log there
    is no writer, and the file is all there is. Raises SourceError."""
    if files.exists(f"{path}-wal") and files.status(f"{path}-wal").st_size:
        raise Forbidden(path, "its directory is read-only, and its log is not yet written back")
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        with closing(sqlite3.connect(f"file:{quoted}?mode=ro&immutable=1", uri=True)) as connection:
            connection.text_factory = lenient_text
            return connection.execute(_ALL).fetchall()
    except sqlite3.Error as error:
        if not files.exists(path):  # deleted while we opened it
            return []
        raise db.answer(error, path) from error


def _launch(row: tuple[Any, ...], path: str) -> Launch:
    id_, boot, pid, start, session, name, group, spec, meta, detail, created, ended_at, code = row
    pairs = tuple((key, str(value)) for key, value in json.loads(meta).items())
    more = json.loads(detail)
    worktree = more.get("worktree")
    return Launch(
        id_,
        ProcessIdentity(boot, pid, start),
        session,
        name,
        group,
        spec,
        pairs,
        more.get("adapter"),
        more.get("cwd"),
        more.get("model"),
        Worktree(*worktree) if worktree else None,
        more.get("on_complete"),
        created,
        _ended(path, id_, ended_at, code, more.get("clock_back", 0.0)),
        tuple(HookRun(*run) for run in more.get("hooks", ())),
        more.get("expired_at"),
        more.get("namespace"),
        more.get("prompt"),
    )


def _ended(
    path: str, launch_id: str, at: float | None, code: int | None, clock_back: float
) -> Exit | None:
    if at is not None and code is not None:
        return Exit(code, at, f"{path}#{launch_id}", clock_back)
    try:
        return exit_record(path, launch_id)
    except SourceError:  # half a record is none: how it ended is then not known
        return None
