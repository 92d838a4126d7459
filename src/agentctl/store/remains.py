"""What the notes say of when a launch may be forgotten. `launches.py` has what people are shown."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentctl.errors import Gone
from agentctl.truth import files, procfs
from agentctl.truth.model import ProcessIdentity
from agentctl.truth.sqlite_ro import Database

_ALL = (
    # not `detail ->> …`: SQLite before 3.38, as Ubuntu 22.04 has it, knows no such thing
    "select id, boot, pid, start, json_extract(detail, '$.namespace'), session_id, name, created_at,"
    " ended_at, finished_at, json_extract(detail, '$.on_complete') from launch order by created_at"
)


class Remains(NamedTuple):
    id: str
    identity: ProcessIdentity
    namespace: str | None  # of pids, that the identity belongs to; None: ours, an older agentctl's note
    session_id: str | None
    name: str | None
    created_at: float
    ended_at: float | None
    finished_at: float | None  # None: what is to be done at its end was not done yet
    on_complete: str | None

    @property
    def may_live(self) -> bool:
        """Unless its process is proven gone: one that we cannot see from here may live."""
        if procfs.elsewhere(self.identity, self.namespace):
            return True
        process = procfs.current(self.identity)
        return process is not None and process.alive


def recorded(path: str) -> list[Remains]:
    """Of every launch, oldest first. Raises SourceError."""
    try:
        files.status(path)
    except Gone:
        return []
    with Database(path) as database:
        if "finished_at" not in database.columns("launch"):  # made by an agentctl that launched nothing
            return []
        return [_remains(row) for row in database.rows(_ALL)]


def _remains(row: tuple[Any, ...]) -> Remains:
    id_, boot, pid, start, *rest = row
    return Remains(id_, ProcessIdentity(boot, pid, start), *rest)
