"""When to look at the sessions of one adapter next.

Looks cost at most a tenth of a processor. The end of a process is never delayed.
"""

from __future__ import annotations

from agentctl.system.inotify import POLL_INTERVAL

NEVER = float("inf")
# Seconds that a status may be unknown before it is reported, counted again when a process ends: a
# process that is ending has removed its record and lost its arguments while it still lives.
DOUBT = 2.0
REST = 9  # times the cost of a look, before a change of a file causes the next one
# Seconds from a look that a database caused to the next. A write to the WAL counts when the index of the
# WAL has it: that is a moment later, and causes no change of a file.
AGAIN = 0.25
WHOLE = 0.005  # seconds within which a record is completely written; it is read then in any case
SOON = 0.005  # seconds to the second look at what is unclear; doubled each time
NAMELESS = 0.05  # the same for a process without a session: no file of it can be watched yet
SELDOM = 0.25, 10.0  # seconds, at most, between two such looks
# Seconds after the start of a process in which it may cause a change that no file shows: a client asks
# its server for a session, and until then the server has none and is not listed.
YOUNG = 5.0


class Schedule:
    """All times are of one clock."""

    def __init__(self) -> None:
        self.due = NEVER
        self._rests_until = 0.0
        self._is_logged = self._was_logged = (
            False  # a database was written: now, before the current look
        )
        self._unclear = self._nameless = 0  # consecutive looks that left something open
        self._young_until = 0.0

    def require_look(self, now: float) -> None:
        """A process has ended: look at once."""
        self.due = min(self.due, now)
        self._unclear = 0

    def start_process(self, now: float) -> None:
        """A process has started, or become another program."""
        self.due = min(self.due, now)
        self._nameless = 0
        self._young_until = now + YOUNG

    def change_file(self, now: float, *, logged: bool = True) -> None:
        """A file has changed. `logged`: it may be a database."""
        self.due = min(self.due, max(now, self._rests_until))
        self._is_logged |= logged

    def change_record(self, now: float) -> None:
        """A record is being written: it is complete in a moment, and that is a change of its own."""
        self.due = min(self.due, max(now + WHOLE, self._rests_until))

    def begin_look(self) -> None:
        self.due = NEVER
        self._was_logged, self._is_logged = self._is_logged, False

    def end_look(
        self,
        began: float,
        now: float,
        *,
        fresh: bool,
        doubtful: bool,
        nameless: bool,
        unwatched: bool = False,
    ) -> None:
        """`fresh`: something is watched for the first time, and may have changed before. `doubtful`: a
        change is held back. `nameless`: a process has no session yet. `unwatched`: something cannot be
        watched."""
        self._rests_until = now + REST * (now - began)
        self._unclear = self._unclear + 1 if doubtful else 0
        nameless |= now < self._young_until
        self._nameless = self._nameless + 1 if nameless else 0
        if fresh:
            self.due = min(self.due, now)
        if self._was_logged:
            self.due = min(self.due, max(self._rests_until, now + AGAIN))
        if unwatched:
            self.due = min(self.due, max(self._rests_until, now + POLL_INTERVAL))
        if doubtful:
            self.due = min(self.due, now + min(SELDOM[0], SOON * 2.0 ** min(self._unclear, 20)))
        if nameless:
            self.due = min(self.due, now + min(SELDOM[1], NAMELESS * 2.0 ** min(self._nameless, 20)))
