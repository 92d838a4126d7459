"""Which idle sessions have drawn on their terminal since we last asked.

Some agents begin to work without a change of any file, and show it on the screen alone. To look at
their sessions by the clock would cost a survey each time; what the kernel keeps on a terminal costs a
few calls.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentctl.errors import SourceError
from agentctl.system.identity import ProcessIdentity
from agentctl.system.tty import use_by
from agentctl.truth.model import Session
from agentctl.watch.watched_files import works_unseen

PERIOD = 10.0  # seconds between two questions: the kernel's times move in steps of eight


class Screens:
    def __init__(self) -> None:
        self._drawn: dict[ProcessIdentity, float] = {}  # when, as of the last question

    def changed(self, sessions: Iterable[Session]) -> set[str]:
        """The adapters of those that have drawn. One that we have not asked about before counts too: it
        may have drawn since it was looked at."""
        before, self._drawn, found = self._drawn, {}, set()
        for session in sessions:
            owner = session.seen.owner
            if owner is None or not works_unseen(session):
                continue
            drawn = _drawn_at(owner.identity)
            if drawn is not None:
                self._drawn[owner.identity] = drawn
                if before.get(owner.identity) != drawn:
                    found.add(session.seen.adapter)
        return found


def _drawn_at(identity: ProcessIdentity) -> float | None:
    """None: it has no terminal, or it has ended, which will be told."""
    try:
        used = use_by(identity)
    except SourceError:
        return None
    return used.drawn_at if used is not None else None
