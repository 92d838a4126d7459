"""Find idle sessions that have drawn on their terminal since the last poll.

Some agents begin to work without a change of any file, and show it only on the screen. A survey by the
clock would be expensive; the kernel's times of a terminal cost a few calls.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.light_typing import Iterable
from agentctl.system.proc import ProcessIdentity
from agentctl.system.tty import read_terminal
from agentctl.truth.model import Session
from agentctl.watch.watched_files import may_work_unseen

PERIOD = 10.0  # seconds between two polls: the kernel's times have steps of eight


class Screens:
    def __init__(self) -> None:
        self._drawn_at: dict[ProcessIdentity, float] = {}  # as of the last poll

    def find_changed(self, sessions: Iterable[Session]) -> set[str]:
        """Return the adapters whose sessions have drawn. A session of the first poll counts too: it may
        have drawn since the last look."""
        before, self._drawn_at = self._drawn_at, {}
        adapters = set()
        for session in sessions:
            owner = session.observation.owner
            if owner is None or not may_work_unseen(session):
                continue
            drawn_at = _read_drawn_at(owner.identity)
            if drawn_at is not None:
                self._drawn_at[owner.identity] = drawn_at
                if before.get(owner.identity) != drawn_at:
                    adapters.add(session.observation.adapter)
        return adapters


def _read_drawn_at(identity: ProcessIdentity) -> float | None:
    """Return None if the process has no terminal, or has ended: its end is noticed elsewhere."""
    try:
        terminal = read_terminal(identity)
    except SourceError:
        return None
    return terminal.drawn_at if terminal is not None else None
