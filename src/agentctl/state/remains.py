"""What the notes say of when a launch may be forgotten. `launches.py` has what people are shown."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentctl.state import db
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity

_ALL = (
    # not `detail ->> …`: SQLite before 3.38, as Ubuntu 22.04 has it, knows no such thing
    "select id, boot, pid, start, json_extract(detail, '$.namespace'), session_id, name, created_at,"
    " ended_at, finished_at, json_extract(detail, '$.on_complete') is not null"
    " from launch order by created_at"
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
    has_hook: bool  # an on-complete hook

    @property
    def may_live(self) -> bool:
        """Unless its process is proven gone: one that we cannot see from here may live."""
        if proc.elsewhere(self.identity, self.namespace):
            return True
        process = proc.current(self.identity)
        return process is not None and process.alive


def recorded(path: str) -> list[Remains]:
    """Of every launch, oldest first. Raises SourceError."""
    with db.reader(path) as database:
        if database is None or "finished_at" not in database.columns("launch"):
            return []  # there is none, or an agentctl made it that launched nothing
        return [_remains(row) for row in database.rows(_ALL)]


def _remains(row: tuple[Any, ...]) -> Remains:
    id_, boot, pid, start, *rest = row
    found = Remains(id_, ProcessIdentity(boot, pid, start), *rest)
    return found._replace(has_hook=bool(found.has_hook))
