"""agentctl's own eyes on a rehearsed agent: the survey of every verb, until it is as expected."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from agentctl.rehearsal.expect import Compared, Telling, compare
from agentctl.sessions import query
from agentctl.system import proc
from agentctl.truth.model import Session
from agentctl.truth.survey import Survey, Wanted

BEAT = 0.05  # seconds between two looks
SETTLE = 8.0  # seconds in which what is true must be told: long, since a busy machine is no drift


class Sighting(NamedTuple):
    """What was told of the agent, compared with what is true."""

    session: Session | None
    compared: Compared
    seconds: float  # until it was so, or until we gave up


class Sight:
    """Follows one agent, by the process that we started and, once it is known, by its session's id."""

    def __init__(self, adapter: str, root: int | None = None, session_id: str | None = None) -> None:
        self.adapter, self.root, self.session_id = adapter, root, session_id

    def until(self, telling: Telling, settle: float = SETTLE) -> Sighting:
        """Looks until it is told as expected, or for that long."""
        began = time.monotonic()
        while True:
            survey = query.everything(Wanted(), (self.adapter,))
            session = self._mine(survey)
            compared = compare(telling, session, survey.problems)
            spent = time.monotonic() - began
            if compared.as_expected or spent > settle:
                return Sighting(session, compared, spent)
            time.sleep(BEAT)

    def _mine(self, survey: Survey) -> Session | None:
        found = self._of(survey, self._is_ours) if self.root else None
        if self.session_id is None and found is not None:
            self.session_id = found.seen.session_id
        if self.session_id is not None:
            return self._of(survey, lambda s: s.seen.session_id == self.session_id) or found
        return found

    def _of(self, survey: Survey, mine: Callable[[Session], bool]) -> Session | None:
        return next((session for session in survey.sessions if mine(session)), None)

    def _is_ours(self, session: Session) -> bool:
        owner = session.seen.owner
        return owner is not None and owner.pid in family(self.root or 0)


def family(root: int) -> set[int]:
    """A process and all that descend from it. (A launcher may have started the agent itself.)"""
    table = proc.read_table()
    found, size = {root}, 0
    while len(found) != size:
        size = len(found)
        found |= {process.pid for process in table.values() if process.parent in found}
    return found
