"""Follow a rehearsed agent with the survey that every verb uses, until it shows what is expected."""

from __future__ import annotations

import time

from agentctl.light_typing import Callable, NamedTuple
from agentctl.rehearsal.signals import Comparison, Expectation, compare
from agentctl.sessions import query
from agentctl.system import proc
from agentctl.truth.model import Session
from agentctl.truth.survey import HistoryQuery, Survey

BEAT = 0.05  # seconds between two looks
SETTLE = 8.0  # seconds until agentctl must show what is true. Long: a busy machine is not drift


class Sighting(NamedTuple):
    """What agentctl showed of the agent, compared with what is true."""

    session: Session | None
    comparison: Comparison
    seconds: float  # until it was as expected, or until we gave up


class Tracker:
    """Follows one agent: by the process that we started and, as soon as it is known, by the session
    id."""

    def __init__(self, adapter: str, root: int | None = None, session_id: str | None = None) -> None:
        self.adapter, self.root, self.session_id = adapter, root, session_id

    def wait_until(self, expectation: Expectation, settle: float = SETTLE) -> Sighting:
        """Look until the survey is as expected, at most `settle` seconds. Return the last look."""
        start = time.monotonic()
        while True:
            survey = query.survey_sessions(HistoryQuery(), (self.adapter,))
            session = self._find_session(survey)
            comparison = compare(expectation, session, survey.problems)
            seconds = time.monotonic() - start
            if comparison.is_as_expected or seconds > settle:
                return Sighting(session, comparison, seconds)
            time.sleep(BEAT)

    def _find_session(self, survey: Survey) -> Session | None:
        by_process = self._first(survey, self._is_ours) if self.root else None
        if self.session_id is None and by_process is not None:
            self.session_id = by_process.observation.session_id
        if self.session_id is None:
            return by_process
        return self._first(survey, self._has_our_id) or by_process

    def _first(self, survey: Survey, test: Callable[[Session], bool]) -> Session | None:
        return next((session for session in survey.sessions if test(session)), None)

    def _has_our_id(self, session: Session) -> bool:
        return session.observation.session_id == self.session_id

    def _is_ours(self, session: Session) -> bool:
        owner = session.observation.owner
        return owner is not None and owner.pid in find_descendants(self.root or 0)


def find_descendants(root: int) -> set[int]:
    """Return the pids of a process and all its descendants. (A launcher may have started the agent.)"""
    table = proc.read_table()
    pids, size = {root}, 0
    while len(pids) != size:
        size = len(pids)
        pids |= {process.pid for process in table.values() if process.parent in pids}
    return pids
