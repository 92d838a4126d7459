"""How often records were written, as far as the kernel has told: whether one can have said something
that nobody read.

A record says what holds now, and not what held before. One write since it was last read is one change,
and is read; two may be two changes, of which one was not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agentctl.system.inotify import News

Place = tuple[int, bytes]  # a watch, and a name in its directory


class Written(NamedTuple):
    """Since a record was last read."""

    most: int | None  # not more often than that; None: nobody counted
    since: float  # not before that, by the time of day; 0: nobody knows


class _Count:
    __slots__ = ("base", "since", "under_way", "whole")

    def __init__(self) -> None:
        self.whole = 0  # writes that are over
        self.under_way = False  # one more is begun
        self.base: int | None = None  # so many were over before it was last read; None: not read yet
        self.since: float | None = None  # since then there is one that was not


class Counts:
    """By place."""

    def __init__(self) -> None:
        self._counts: dict[Place, _Count] = {}

    def keep(self, places: Iterable[Place]) -> None:
        """Count these, and no others."""
        before = self._counts
        self._counts = {place: before.get(place) or _Count() for place in places}

    def __contains__(self, place: Place) -> bool:
        return place in self._counts

    def hear(self, news: Iterable[News], quiet: float) -> None:
        """`quiet`: until then there was none of these."""
        for each in news:
            count = self._counts.get((each.watch, each.name))
            if count is None:
                continue
            count.whole += each.whole
            count.under_way = not each.whole
            if count.since is None:
                count.since = quiet

    def lost(self) -> None:
        """Some were not told of."""
        for count in self._counts.values():
            count.base, count.since = None, None

    def over(self, place: Place) -> int:
        """How many are over by now; to be given to `was_read` by who reads it now."""
        count = self._counts.get(place)
        return count.whole if count is not None else 0

    def written(self, place: Place) -> Written | None:
        """None: it is not counted."""
        count = self._counts.get(place)
        if count is None:
            return None
        if count.base is None:
            return Written(None, 0.0)
        return Written(count.whole + count.under_way - count.base, count.since or 0.0)

    def was_read(self, place: Place, over: int, moment: float) -> None:
        """By one who began at that moment, when so many were over. What came since may not have been."""
        count = self._counts.get(place)
        if count is not None:
            count.base = over
            count.since = moment if count.whole > over or count.under_way else None
