"""`Listening` fails on every lie, every needless event and every missing event."""

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
from tests.real.book import State, Who
from tests.real.desk import Quiet
from tests.real.listening import Listening

US = proc.read_process(os.getpid(), proc.read_boot_id()).identity
WHO = Who("demo 1", "demo", US, "s1")
NAMELESS = WHO._replace(session_id=None)


def make_event(kind: str, subject: str | None = "s1", **more: object) -> Event:
    status = kind.removeprefix("session.")
    session_id = subject if subject and not subject.startswith("proc:") else None
    session = {"id": session_id, "status": status, "waiting_for": None, "outcome": None, **more}
    data = {} if status == "stopped" else {"process": US.address, "was": US.address}
    return Event(kind, time.time(), None, "demo", subject, body={"session": session, "data": data})


class Play:
    """A journal, and the watcher that reads it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.writes(Event("daemon.started", time.time()))
        self.listening = Listening(Quiet(), path, lambda: True)

    def writes(self, *events: Event) -> None:
        journal.append_events(self.path, events)

    def declares(self, status: str, **more: str) -> None:
        self.listening.declare(WHO, State(status, **more), time.time())


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr(listening, "PATIENCE", 0.05)
    return Play(str(tmp_path / "state.db"))


def test_events_in_order_are_accepted(play: Play) -> None:
    play.writes(make_event("session.started", US.address), make_event("session.running", US.address))
    play.declares("running")
    play.writes(make_event("session.identified"), make_event("session.idle"))
    play.declares("idle")
    play.declares("running", blind="nothing tells")
    play.writes(make_event("session.stopped", outcome="killed"))
    play.declares("stopped", outcome="killed")
    play.listening.check_journal()


def test_a_missing_event_is_a_failure(play: Play) -> None:
    play.writes(make_event("session.running"))
    with pytest.raises(AssertionError, match="the journal shows demo 1 as"):
        play.declares("idle")
    play.writes(make_event("session.stopped", outcome="completed"))
    with pytest.raises(AssertionError, match="the journal shows demo 1 as"):
        play.declares("stopped", outcome="killed")


def test_an_end_while_it_lives_is_a_lie(play: Play) -> None:
    play.writes(make_event("session.running"), make_event("session.stopped"))
    with pytest.raises(AssertionError, match="stopped, and lives"):
        play.declares("running", blind="nothing tells")


@pytest.mark.parametrize(
    "events",
    [
        [make_event("session.started"), make_event("session.started")],
        [
            make_event("session.started", US.address),
            make_event("session.identified"),
            make_event("session.started"),
        ],
        [make_event("session.started"), make_event("session.stopped"), make_event("session.stopped")],
        [make_event("session.unknown")],
        [gap(1.0, 2.0, AWAY)],
        [Event("daemon.started", 1.0)],
    ],
    ids=["started twice", "identified and started", "stopped twice", "unknown", "a gap", "no gap"],
)
def test_an_event_that_should_not_be_there_is_a_failure(play: Play, events: list[Event]) -> None:
    play.writes(*events)
    with pytest.raises(AssertionError, match=r"repeated|without a reason|reported no gap"):
        play.listening.check_journal()


def test_unknown_is_right_only_at_a_beginning(play: Play) -> None:
    play.writes(make_event("session.unknown"), make_event("session.running"))
    play.declares("running")
    play.listening.check_journal()
    play.writes(make_event("session.unknown")._replace(seen_at=time.time()))
    with pytest.raises(AssertionError, match="without a reason"):
        play.listening.check_journal()


def test_a_gap_without_a_daemon_is_right(play: Play) -> None:
    play.writes(Event("daemon.started", 1.0), gap(1.0, 2.0, AWAY))
    play.listening.check_journal()


def test_a_gap_for_a_brief_turn_is_right(play: Play) -> None:
    now = time.time()
    data = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:02Z", "reason": "in between"}
    brief = Event("events.gap", now, now, "demo", "s1", body={"data": data})
    play.writes(brief)
    play.listening.unsettled(WHO, 1767225601.0)
    play.listening.check_journal()


def test_nothing_is_checked_after_the_journal_was_deleted(play: Play) -> None:
    Path(play.path).unlink()
    play.declares("idle")
    play.listening.check_journal()


def test_an_undeclared_wait_is_a_failure(play: Play) -> None:
    play.writes(make_event("session.started"), make_event("session.waiting"))
    play.declares("waiting")
    play.writes(make_event("session.running"))
    play.declares("running")
    play.listening.check_journal()
    play.writes(make_event("session.waiting"), make_event("session.running"))
    with pytest.raises(AssertionError, match="a wait that was not declared"):
        play.listening.check_journal()
