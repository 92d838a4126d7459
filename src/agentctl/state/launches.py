"""Launch notes: what only we know about a launch, such as its name and its exit code. They are added to
a session by its process identity or its id; `truth/labels.py` does this."""

from __future__ import annotations

import _sqlite3 as sqlite3  # see system/sqlite
from contextlib import closing

from agentctl.errors import Forbidden, Gone, Malformed, SourceError, Temporary, Untrusted
from agentctl.json_text import decode
from agentctl.light_typing import Any, NamedTuple
from agentctl.state import db
from agentctl.system import files, jsonl, permissions
from agentctl.system.owner import Owner
from agentctl.system.proc import ProcessIdentity
from agentctl.system.sqlite import KnownRows, decode_text, file_uri
from agentctl.truth.model import Exit, HookRun, Launch, Worktree

_ALL = (
    'select id, boot, pid, start, session_id, name, "group", spec, meta, detail, created_at, ended_at,'
    " exit_code from launch order by created_at"
)
_BEFORE_DETAIL = _ALL.replace("detail", "'{}'").replace("ended_at", "null").replace("exit_code", "null")


def read_launches(path: str, answers: KnownRows | None = None) -> list[Launch]:
    """Return all launch notes, oldest first; none if there is no database. `answers` is what a
    long-lived process remembers of the database. Raises SourceError."""
    try:
        with db.open_reader(path, answers) as database:
            columns = database.columns("launch") if database is not None else frozenset()
            if database is None or not columns:
                return []  # a database without tables: the disk was full, or its first writer died
            rows = database.rows(_ALL if "detail" in columns else _BEFORE_DETAIL)
    except (Untrusted, Temporary):
        raise
    except Forbidden:
        rows = _read_immutable(path)
    try:
        return [_launch(row, path) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:
        raise Malformed(path, f"a launch note cannot be read: {error}", db.DAMAGED) from error


def find_launch(path: str, launch_id: str) -> Launch | None:
    """Return the note of this launch; None if there is none. Raises SourceError."""
    return next((note for note in read_launches(path) if note.id == launch_id), None)


def launch_folder(path: str, launch_id: str) -> str:
    """Return the launch folder: it holds the prompt, the output and the exit record."""
    return f"{path.rpartition('/')[0]}/launches/{launch_id}"


def read_exit_record(path: str, launch_id: str) -> Exit | None:
    """Return what the shim wrote when the agent ended; None if there is no exit record. Raises
    SourceError."""
    source = f"{launch_folder(path, launch_id)}/exit"
    if not permissions.is_trusted_file(source):
        return None
    try:
        record = jsonl.parse_record(files.read_file(source).data) or {}
    except Gone:
        return None
    code, at = record.get("code"), record.get("at")
    if not isinstance(code, int) or not isinstance(at, float):
        raise Malformed(source, "not an exit record")
    clock_back = record.get("clock_back_s")
    return Exit(code, at, source, clock_back if isinstance(clock_back, float) else 0.0)


def _read_immutable(path: str) -> list[tuple[Any, ...]]:
    """Return the rows of a database in a read-only directory, where SQLite cannot create the index of
    the log. Without a log there is no writer, and the file is complete. Raises SourceError."""
    if files.is_present(f"{path}-wal") and files.read_status(f"{path}-wal").st_size:
        raise Forbidden(path, "its directory is read-only, and its log is not yet written back")
    uri = file_uri(path, "mode=ro&immutable=1")
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.text_factory = decode_text
            return connection.execute(_ALL).fetchall()
    except sqlite3.Error as error:
        if not files.is_present(path):  # it was deleted meanwhile
            return []
        raise db.translate_sqlite_error(error, path) from error


def _launch(row: tuple[Any, ...], path: str) -> Launch:
    id_, boot, pid, start, session, name, group, spec, meta, detail, created, ended_at, code = row
    pairs = tuple((key, str(value)) for key, value in decode(meta).items())
    more = decode(detail)
    worktree = more.get("worktree")
    return Launch(
        id=id_,
        identity=ProcessIdentity(boot, pid, start),
        session_id=session,
        name=name,
        group=group,
        spec=spec,
        meta=pairs,
        adapter=more.get("adapter"),
        cwd=more.get("cwd"),
        model=more.get("model"),
        worktree=Worktree(*worktree) if worktree else None,
        on_complete=more.get("on_complete"),
        created_at=created,
        exit=_find_exit(path, id_, ended_at, code, more.get("clock_back", 0.0)),
        hooks=tuple(HookRun(*run) for run in more.get("hooks", ())),
        expired_at=more.get("expired_at"),
        namespace=more.get("namespace"),
        prompt=more.get("prompt"),
    )


def _find_exit(
    path: str, launch_id: str, at: float | None, code: int | None, clock_back: float
) -> Exit | None:
    if at is not None and code is not None:
        return Exit(code, at, f"{path}#{launch_id}", clock_back)
    try:
        return read_exit_record(path, launch_id)
    except SourceError:  # a damaged record says nothing about the end
        return None


_ROWS = (
    # not `detail ->> …`: Ubuntu 22.04 has a SQLite older than 3.38, which does not support it
    "select id, boot, pid, start, json_extract(detail, '$.namespace'), session_id, name, created_at,"
    " ended_at, finished_at, json_extract(detail, '$.on_complete') is not null"
    " from launch order by created_at"
)


class LaunchRow(NamedTuple):
    """What locks, prune and metrics need of a launch. Unlike a `Launch`, it is read from the database
    alone, without the exit records."""

    id: str
    identity: ProcessIdentity
    namespace: str | None  # the pid namespace of the identity; None: ours, in an old note
    session_id: str | None
    name: str | None
    created_at: float
    ended_at: float | None
    finished_at: float | None  # None: the work at its end is still to be done
    has_hook: bool  # an on-complete hook

    @property
    def may_live(self) -> bool:
        """Return False only if the process is proven gone."""
        return Owner(self.identity, self.namespace).may_live


def read_launch_rows(path: str) -> list[LaunchRow]:
    """Return one row for every launch, oldest first. Raises SourceError."""
    return [_launch_row(row) for row in db.read_table(path, "launch", _ROWS, column="finished_at")]


def _launch_row(row: tuple[Any, ...]) -> LaunchRow:
    id_, boot, pid, start, *rest, has_hook = row
    return LaunchRow._make((id_, ProcessIdentity(boot, pid, start), *rest, bool(has_hook)))
