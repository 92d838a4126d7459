"""The end of a play: its last change has time to be reported, and a lost journal holds up nothing."""

from __future__ import annotations

import pytest

from tests.real.accuracy import playing
from tests.real.accuracy.record import Record, StreamEvent
from tests.real.accuracy.timeline import Timeline
from tests.real.book import State, Who

ME = Who("one", "codex", None, "id-1")


class Journal:
    """Has an event for the change from the third look on, if at all."""

    def __init__(self, *, late: bool) -> None:
        self.looks, self.late = 0, late
        self.timeline = Timeline(hold=0.0)
        self.timeline.declare(ME, State("idle"), 10.0)

    def read(self) -> Record:
        self.looks += 1
        events = [StreamEvent(1, "session.idle", 10.5, "id-1")]
        return Record(self.timeline.actors, events if self.late and self.looks > 2 else [])


def test_the_last_change_has_time_to_be_reported() -> None:
    journal = Journal(late=True)
    playing.wait_for_events(journal.read)
    assert journal.looks == 3


def test_the_wait_for_a_missing_event_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "LATE", 0.2)
    journal = Journal(late=False)
    playing.wait_for_events(journal.read)
    assert journal.looks > 1


def test_there_is_no_wait_after_the_journal_was_deleted() -> None:
    looks: list[None] = []

    def read() -> None:
        looks.append(None)

    playing.wait_for_events(read)
    assert len(looks) == 1
