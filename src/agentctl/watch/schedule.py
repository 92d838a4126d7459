"""When to look at one adapter's sessions next. Whatever happens, a look costs no more than a tenth of a
processor; the end of a process waits for nobody."""

from __future__ import annotations

from agentctl.system.inotify import WITHOUT

NEVER = float("inf")
# After a look we rest through nine times what it took, unless a process ends: an agent that writes all
# the time costs a tenth of a processor at most.
REST = 9
# Seconds after a look that a database woke us for, after which we look once more. What is written to a
# database's log counts when the log's index says so: that comes later, by a moment, and wakes nobody.
AGAIN = 0.25
# Seconds within which a record that is being written is whole; if not, it is looked at as it is.
WHOLE = 0.005
SOON = 0.005  # seconds to the second look at what is not clear yet; then twice as long, and so on
NAMELESS = 0.05  # the same for a process that has no session yet: nobody knows which file to watch
SELDOM = 0.25, 10.0  # seconds, at most, between two such looks
# Seconds after the beginning of a process within which it may bring about what no file tells us of: a
# client that asks its server for a session, which until then has none, and is not listed.
YOUNG = 5.0


class Rhythm:
    """All moments are of one clock."""

    def __init__(self) -> None:
        self.due = NEVER
        self._rested = 0.0  # until then we rest
        self._logged = self._once_more = False  # a database was written, before the look that goes on
        self._unclear = self._unnamed = 0  # looks that left something open, one after the other
        self._young = 0.0  # until then a process of its is young

    def now(self, now: float) -> None:
        """A process has ended: look at once."""
        self.due = min(self.due, now)
        self._unclear = 0

    def born(self, now: float) -> None:
        """A process has begun, or become another program."""
        self.due = min(self.due, now)
        self._unnamed = 0
        self._young = now + YOUNG

    def changed(self, now: float, *, logged: bool = True) -> None:
        """A file has changed. `logged`: it may be a database."""
        self.due = min(self.due, max(now, self._rested))
        self._logged |= logged

    def changing(self, now: float) -> None:
        """A record is being written: it is whole in a moment, which will be told."""
        self.due = min(self.due, max(now + WHOLE, self._rested))

    def begins(self) -> None:
        """A look begins."""
        self.due = NEVER
        self._once_more, self._logged = self._logged, False

    def ended(
        self,
        began: float,
        now: float,
        *,
        fresh: bool,
        doubtful: bool,
        nameless: bool,
        unwatched: bool = False,
    ) -> None:
        """A look is over. `fresh`: something new is watched from now on, and may have changed before.
        `unwatched`: nobody will tell of some changes, so the next look is by the clock."""
        self._rested = now + REST * (now - began)
        self._unclear = self._unclear + 1 if doubtful else 0
        nameless |= now < self._young
        self._unnamed = self._unnamed + 1 if nameless else 0
        if fresh:
            self.due = min(self.due, now)
        if self._once_more:
            self.due = min(self.due, max(self._rested, now + AGAIN))
        if unwatched:
            self.due = min(self.due, max(self._rested, now + WITHOUT))
        if doubtful:
            self.due = min(self.due, now + min(SELDOM[0], SOON * 2.0 ** min(self._unclear, 20)))
        if nameless:
            self.due = min(self.due, now + min(SELDOM[1], NAMELESS * 2.0 ** min(self._unnamed, 20)))
