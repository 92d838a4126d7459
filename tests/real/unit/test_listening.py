"""The one who listens to the daemon passes no lie, no noise and nothing untold."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentctl.state import journal
from agentctl.system import proc
from agentctl.truth.event import Event
from agentctl.watch.observer import AWAY
from agentctl.watch.story import gap
from tests.real import listening
from tests.real.book import Told, Who
from tests.real.desk import Quiet
from tests.real.listening import Listening

US = proc.read_process(os.getpid(), proc.boot_id()).identity
WHO = Who("demo 1", "demo", US, "s1")
NAMELESS = WHO._replace(session_id=None)


def told(kind: str, subject: str | None = "s1", **more: object) -> Event:
    status = kind.removeprefix("session.")
    named = subject if subject and not subject.startswith("proc:") else None
    session = {"id": named, "status": status, "waiting_for": None, "outcome": None, **more}
    data = {} if status == "stopped" else {"process": US.address, "was": US.address}
    return Event(kind, time.time(), None, "demo", subject, body={"session": session, "data": data})


class Play:
    """What was told, and who listened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.tells(Event("daemon.started", time.time()))
        self.listening = Listening(Quiet(), path, lambda: True)

    def tells(self, *events: Event) -> None:
        journal.record(self.path, events)

    def declares(self, status: str, **more: str) -> None:
        self.listening.told(WHO, Told(status, **more), time.time())


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr(listening, "PATIENCE", 0.05)
    return Play(str(tmp_path / "state.db"))


def test_what_was_told_in_order_is_heard(play: Play) -> None:
    play.tells(told("session.started", US.address), told("session.running", US.address))
    play.declares("running")
    play.tells(told("session.identified"), told("session.idle"))
    play.declares("idle")
    play.declares("running", blind="nothing tells")
    play.tells(told("session.stopped", outcome="killed"))
    play.declares("stopped", outcome="killed")
    play.listening.is_over()


def test_what_was_not_told_is_missed(play: Play) -> None:
    play.tells(told("session.running"))
    with pytest.raises(AssertionError, match="the journal tells demo 1 as"):
        play.declares("idle")
    play.tells(told("session.stopped", outcome="completed"))
    with pytest.raises(AssertionError, match="the journal tells demo 1 as"):
        play.declares("stopped", outcome="killed")


def test_an_end_while_it_lives_is_a_lie(play: Play) -> None:
    play.tells(told("session.running"), told("session.stopped"))
    with pytest.raises(AssertionError, match="stopped, and lives"):
        play.declares("running", blind="nothing tells")


@pytest.mark.parametrize(
    "events",
    [
        [told("session.started"), told("session.started")],
        [told("session.started", US.address), told("session.identified"), told("session.started")],
        [told("session.started"), told("session.stopped"), told("session.stopped")],
        [told("session.unknown")],
        [gap(1.0, 2.0, AWAY)],
        [Event("daemon.started", 1.0)],
    ],
    ids=["started twice", "identified and started", "stopped twice", "unknown", "a gap", "no gap"],
)
def test_what_should_not_be_told(play: Play, events: list[Event]) -> None:
    play.tells(*events)
    with pytest.raises(AssertionError, match=r"told twice|without a reason|told no gap"):
        play.listening.is_over()


def test_that_nobody_can_tell_is_right_of_a_beginning_alone(play: Play) -> None:
    play.tells(told("session.unknown"), told("session.running"))
    play.declares("running")
    play.listening.is_over()
    play.tells(told("session.unknown")._replace(seen_at=time.time()))
    with pytest.raises(AssertionError, match="without a reason"):
        play.listening.is_over()


def test_a_gap_while_nobody_watched_is_right(play: Play) -> None:
    play.tells(Event("daemon.started", 1.0), gap(1.0, 2.0, AWAY))
    play.listening.is_over()


def test_a_gap_for_what_was_over_at_once_is_right(play: Play) -> None:
    now = time.time()
    data = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:02Z", "reason": "in between"}
    brief = Event("events.gap", now, now, "demo", "s1", body={"data": data})
    play.tells(brief)
    play.listening.unsettled(WHO, 1767225601.0)
    play.listening.is_over()


def test_whose_journal_was_deleted_hears_nothing_more(play: Play) -> None:
    Path(play.path).unlink()
    play.declares("idle")
    play.listening.is_over()


def test_a_wait_that_nobody_declared_is_a_lie(play: Play) -> None:
    play.tells(told("session.started"), told("session.waiting"))
    play.declares("waiting")
    play.tells(told("session.running"))
    play.declares("running")
    play.listening.is_over()
    play.tells(told("session.waiting"), told("session.running"))
    with pytest.raises(AssertionError, match="told to wait, and did not"):
        play.listening.is_over()
