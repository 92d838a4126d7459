"""The benchmark's judgement of the stream: what counts as told, how late, and as a lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctl.control.observer import AWAY
from agentctl.control.story import gap
from agentctl.truth.event import Event
from agentctl.truth.model import ProcessIdentity
from tests.real.accuracy.score import Finding
from tests.real.accuracy.stream import Ear
from tests.real.accuracy.tally import heard, unheard
from tests.real.accuracy.timeline import Timeline
from tests.real.book import Told, Who

PROCESS = ProcessIdentity("boot", 7, 70)
ME = Who("one", "codex", PROCESS, "id-1")
OTHER = Who("two", "codex", ProcessIdentity("boot", 8, 80), "id-1")


class Story:
    """A short history, told in seconds, and what the daemon told of it."""

    def __init__(self) -> None:
        self.timeline = Timeline(hold=0.0)
        self.events: list[Event] = []

    def is_now(self, at: float, status: str, who: Who = ME, **more: str) -> None:
        self.timeline.unsettled(who, at - 0.01)
        self.timeline.told(who, Told(status, **more), at)

    def told(
        self, at: float, status: str, subject: str = "id-1", process: str = PROCESS.address
    ) -> None:
        body = {"data": {"process": process} if status != "stopped" else {}}
        number = len(self.events) + 1
        self.events.append(Event(f"session.{status}", at, None, "codex", subject, None, body, number))

    def findings(self) -> list[Finding]:
        return Ear("a play", self.timeline.actors, self.events).findings()

    def said(self) -> list[tuple[str, str, float]]:
        return [(f.kind, f.truth, round(f.at, 3)) for f in self.findings()]


def test_how_long_it_took_to_be_told() -> None:
    story = Story()
    story.told(9.0, "running", PROCESS.address)
    story.is_now(10.0, "running")
    story.told(10.1, "running")
    story.is_now(12.0, "idle")
    story.told(12.2, "idle")
    story.is_now(14.0, "stopped")
    story.told(14.05, "stopped")
    assert story.said() == [
        ("told", "start → running", 0.0),
        ("told", "running → idle", 0.2),
        ("told", "idle → stopped", 0.05),
    ]


def test_what_was_told_after_the_next_thing_was_done_was_not_told() -> None:
    story = Story()
    story.is_now(10.0, "running")
    story.is_now(12.0, "idle")
    story.told(12.1, "running")
    story.told(12.2, "idle")
    assert [kind for kind, *_ in story.said()] == ["untold", "told"]


def test_another_status_while_it_is_settled_is_wrong() -> None:
    story = Story()
    story.told(9.9, "idle")
    story.is_now(10.0, "idle")
    story.told(10.2, "running")  # it may be on its way
    story.told(10.4, "idle")
    story.told(11.0, "waiting")
    story.told(11.1, "unknown")
    assert [kind for kind, *_ in story.said()] == ["told", "wrong", "unknown"]


def test_an_end_that_is_told_while_it_lives_is_a_lie() -> None:
    story = Story()
    story.told(9.9, "idle")
    story.is_now(10.0, "idle")
    story.timeline.ended(ME, 11.0)
    story.told(10.3, "stopped")
    story.told(10.95, "stopped")  # we were told of its end a moment later than the daemon
    assert [kind for kind, *_ in story.said()] == ["told", "wrong-stopped"]


def test_one_that_another_goes_on_with_has_not_been_told_wrong() -> None:
    story = Story()
    story.is_now(10.0, "stopped")
    story.told(10.1, "stopped")
    story.is_now(12.0, "running", OTHER)
    story.told(12.1, "running", process="proc:8@80")
    assert [kind for kind, *_ in story.said()] == ["told", "told"]


def test_what_nothing_tells_and_what_nobody_watched_is_not_counted() -> None:
    story = Story()
    story.is_now(10.0, "running", blind="no trace")
    story.is_now(12.0, "idle")
    story.events.append(gap(11.0, 13.0, AWAY))
    assert story.said() == []


def test_what_was_over_at_once_is_a_gap() -> None:
    story = Story()
    data = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:01Z", "reason": "in between"}
    story.events.append(Event("events.gap", 1.0, 1.0, "codex", "id-1", body={"data": data}))
    assert [(f.kind, f.reason) for f in story.findings()] == [("gap", "in between")]


def test_it_is_added_up() -> None:
    story = Story()
    story.is_now(10.0, "running")
    story.told(10.1, "running")
    story.is_now(12.0, "idle")
    plays: list[Mapping[str, Any]]
    plays = [{"stream": [finding._asdict() for finding in story.findings()]}, {"stream": None}, {}]
    one = heard(plays)
    assert one is not None
    assert (one.told, one.untold, one.share) == (1, 1, 0.5)
    assert [finding["kind"] for finding in unheard(plays)] == ["untold"]
    assert heard([{}]) is None
