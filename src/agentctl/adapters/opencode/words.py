"""What an OpenCode database says of some sessions beyond their rows: prompts, tool calls, last turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentctl.adapters.opencode import db as database
from agentctl.adapters.opencode.db import Parts, Row
from agentctl.adapters.opencode.messages import turn_of
from agentctl.system.sqlite import Database
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Turn


class Words:
    """What a database says of some sessions beyond their rows."""

    def __init__(self, path: str, db: Database, rows: Sequence[Row], look: Look, *, live: bool) -> None:
        self.path = path
        self.parts: Parts = database.telling_parts(db, rows, live=live)
        self.prompts = database.prompts(db, rows)
        garbled = self.parts.garbled + sum(
            row.message_id is not None and row.message is None for row in rows
        )
        if garbled:
            look.problem("malformed", f"{garbled} records not readable", path)

    def facts(self, row: Row) -> Facts:
        return database.facts_of(row, self.prompts.get(row.id))

    def address(self, row: Row) -> str:
        return address(self.path, row.id, row.message_id)

    def turn(self, look: Look, row: Row, *, gone: bool) -> Turn | None:
        """The journal's word on the last turn."""
        if row.message is None:
            return None
        where = self.address(row)
        parts = self.parts.of(row.message_id)
        return turn_of(row.message, parts, look, where, row.version, gone=gone)

    def evidence(self, look: Look, row: Row) -> Iterator[Evidence]:
        """The same of a session that lives, as evidence."""
        turn = self.turn(look, row, gone=False)
        if turn is not None:
            yield Evidence(turn.claim, self.address(row), "journal", turn.at, turn.detail, turn.note)


def address(path: str, session_id: str, message_id: str | None) -> str:
    return f"{path}#{session_id}/{message_id}" if message_id else f"{path}#{session_id}"
