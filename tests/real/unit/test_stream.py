"""The benchmark's judgement of events and notifications: how late they are, and which are false."""

from __future__ import annotations

from typing import Any

import pytest

from agentctl.system.proc import ProcessIdentity
from agentctl.watch.observer import AWAY
from agentctl.watch.story import ANOTHER
from tests.real.accuracy import report
from tests.real.accuracy.record import ModelRequest, Notification, Record, StreamEvent, encode
from tests.real.accuracy.score import Finding
from tests.real.accuracy.stream import Scorer, score
from tests.real.accuracy.tally import bad_findings, count_stream
from tests.real.accuracy.timeline import Timeline
from tests.real.book import State, Who

PROCESS = ProcessIdentity("boot", 7, 70)
SECOND = ProcessIdentity("boot", 8, 80)
ME = Who("one", "codex", PROCESS, "id-1")
RESUMED = Who("two", "codex", SECOND, "id-1")
OTHER = Who("three", "codex", SECOND, "id-2")
NAMELESS = ME._replace(session_id=None)


class Story:
    """A short history, in seconds, and the events that the daemon wrote about it."""

    def __init__(self, *headless: str) -> None:
        self.timeline = Timeline(hold=0.0)
        self.headless = frozenset(headless)
        self.events: list[StreamEvent] = []
        self.requests: list[ModelRequest] = []
        self.notifications: list[Notification] = []

    def does(self, at: float, who: Who = ME) -> None:
        self.timeline.unsettled(who, at)

    def is_now(self, at: float, status: str, who: Who = ME, **more: str) -> None:
        if status == "stopped" and who.process is not None:
            self.timeline.record_end(who, at)
        self.timeline.declare(who, State(status, **more), at)

    def asks(self, at: float, kind: str = "asked", mark: str = "m1x1") -> None:
        self.requests.append(ModelRequest(at, kind, (mark,) if mark else ()))

    def writes(
        self, at: float, status: str, subject: str = "id-1", process: str | None = None, **more: Any
    ) -> int:
        if process is None and status != "stopped":
            process = PROCESS.address
        number = len(self.events) + 1
        event = StreamEvent(number, f"session.{status}", at, subject, process)
        self.events.append(event._replace(**more))
        return number

    def pushes(self, at: float, word: str, seq: int) -> None:
        self.notifications.append(Notification(at, seq, word))

    @property
    def record(self) -> Record:
        marks = dict.fromkeys(self.timeline.actors, ("m1x1",))
        return Record(
            self.timeline.actors, self.events, self.headless, marks, self.requests, self.notifications
        )

    def findings(self) -> list[Finding]:
        return Scorer("a play", self.record).findings()

    def false(self) -> list[str]:
        """The false events and notifications."""
        findings = [f for f in self.findings() if f.kind in ("false", "ghost", "false-notification")]
        return [f"{f.kind} {f.said}" for f in findings]

    def changes(self) -> list[tuple[str, str, float]]:
        kinds = ("reported", "missing", "blind", "unfounded")
        return [(f.kind, f.truth, round(f.at, 3)) for f in self.findings() if f.kind in kinds]


def make_turn(*headless: str) -> Story:
    """It starts at 9, works from 10 on, may go on at 12, is idle from 12.2 on."""
    story = Story(*headless)
    story.does(9.0)
    story.asks(9.9)
    story.is_now(10.0, "running")
    story.does(12.0)
    story.asks(12.1, "answered")
    story.is_now(12.2, "idle")
    return story


def test_a_true_stream_has_nothing_false() -> None:
    story = make_turn()
    story.writes(9.1, "started", PROCESS.address)
    story.writes(9.1, "running", PROCESS.address, activity="unknown")
    story.writes(9.5, "identified")
    story.writes(9.5, "idle")  # at its prompt
    story.writes(9.8, "running")  # before the model has its request
    story.writes(12.3, "idle")
    story.does(14.0)
    story.is_now(14.5, "stopped", outcome="killed")
    story.pushes(14.7, "failed", story.writes(14.6, "stopped", outcome="killed"))
    assert story.false() == []
    assert story.changes() == [
        ("reported", "start → running", 0.0),
        ("reported", "running → idle", 0.1),
        ("reported", "idle → stopped", 0.1),
    ]


def test_a_wait_between_two_settled_moments_is_false() -> None:
    """As of OpenCode, which asks for no permission before its command runs."""
    story = Story("one")
    story.does(9.0)
    story.asks(9.5)
    story.asks(9.7, "called")
    story.writes(9.6, "running")
    waits = story.writes(9.8, "waiting", waiting_for="permission")
    story.pushes(9.9, "waiting", waits)
    story.is_now(10.0, "running")
    story.writes(10.05, "running")
    assert story.false() == ["false waiting", "false-notification waiting"]


def test_a_declared_wait_is_true_until_it_ends() -> None:
    story = Story()
    story.does(9.0)
    story.asks(9.5)
    story.is_now(10.0, "waiting", waiting_for="permission")
    story.pushes(10.2, "waiting", story.writes(10.1, "waiting", waiting_for="permission"))
    story.does(12.0)
    story.is_now(12.5, "running")
    story.pushes(14.6, "waiting", 1)
    assert story.false() == ["false-notification waiting"]


def test_a_wait_for_the_wrong_thing_is_false() -> None:
    story = Story()
    story.does(9.0)
    story.is_now(10.0, "waiting", waiting_for="question")
    story.writes(10.1, "waiting", waiting_for="permission")
    assert story.false() == ["false waiting"]


def test_a_change_without_an_event_is_missing() -> None:
    story = make_turn()
    story.writes(10.1, "running")
    story.does(14.0)
    story.is_now(15.0, "waiting")
    story.writes(17.1, "idle")  # two seconds after the next change: too late
    story.writes(17.2, "waiting")
    assert [kind for kind, *_ in story.changes()] == ["reported", "missing", "reported"]
    assert story.false() == ["false idle"]


def test_a_slow_agent_is_late_and_not_missing() -> None:
    """It writes that its turn is over after the driver has typed again."""
    story = make_turn()
    story.writes(10.1, "running")
    story.does(14.0)
    story.writes(16.5, "idle")
    story.is_now(18.0, "waiting")
    story.writes(18.1, "waiting")
    assert story.changes()[1] == ("reported", "running → idle", 4.3)
    assert story.false() == []


def test_a_late_event_counts_and_is_not_false() -> None:
    story = make_turn()
    story.writes(10.1, "running")
    story.does(14.0)
    story.asks(14.1)
    story.is_now(14.2, "running")
    story.writes(15.0, "idle")
    story.writes(15.1, "running")
    assert story.false() == []
    assert story.changes()[1:] == [
        ("reported", "running → idle", 2.8),
        ("reported", "idle → running", 0.9),
    ]


def test_an_end_before_its_time_is_false() -> None:
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(12.3, "idle")
    story.does(14.0)  # a signal, after which it takes its time
    story.writes(14.2, "stopped")
    story.writes(14.3, "started")
    story.writes(14.3, "idle")
    story.writes(15.45, "stopped")  # the driver hears of its end a moment later than the daemon
    story.is_now(15.5, "stopped")
    assert story.false() == ["false stopped"]


def test_an_end_of_the_wrong_kind_is_false() -> None:
    story = make_turn()
    story.is_now(14.0, "stopped", outcome="completed")
    story.pushes(14.2, "failed", story.writes(14.1, "stopped", outcome="failed"))
    assert story.false() == ["false stopped", "false-notification stopped"]
    story.events[-1] = story.events[-1]._replace(outcome="unknown")
    assert story.false() == []


def test_an_event_of_life_after_the_end_is_false() -> None:
    story = make_turn()
    story.is_now(14.0, "stopped")
    story.writes(14.1, "stopped")
    story.writes(17.0, "started")
    story.writes(17.0, "running", activity="unknown")
    assert story.false() == ["false started", "false running"]


def test_there_is_no_way_back_within_a_change() -> None:
    """Only a turn of the model makes one."""
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(12.1, "idle")
    story.writes(12.15, "running")
    story.writes(12.3, "idle")
    assert story.false() == ["false running"]
    story.asks(12.12)
    assert story.false() == []


def test_a_request_proves_that_it_was_declared_idle_too_early() -> None:
    """As Claude Code, whose client tries again after an error that ends the turn of others."""
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(12.3, "idle")
    story.writes(15.1, "running")
    story.writes(15.6, "idle")
    assert story.false() == ["false running"]
    story.asks(15.0)
    assert story.false() == []


def test_a_turn_without_a_prompt_is_true() -> None:
    """The request has no mark of a prompt, as after the end of a sub-agent."""
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(12.05, "idle")
    story.writes(12.15, "running")
    story.writes(12.3, "idle")
    story.asks(12.1, mark="")
    assert story.false() == []


def test_it_may_work_on_what_was_typed_without_the_model() -> None:
    """As Claude Code does at /branch."""
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(12.3, "idle")
    story.does(14.0)
    story.writes(14.2, "running")
    story.is_now(14.5, "idle")
    story.writes(14.6, "idle")
    story.writes(17.0, "running")
    assert [(f.kind, f.at) for f in story.findings() if f.kind == "false"] == [("false", 6.9)]


@pytest.mark.parametrize(("headless", "false"), [("one", ["false idle"]), ("two", [])])
def test_a_headless_agent_is_not_idle_before_its_turn(headless: str, false: list[str]) -> None:
    story = make_turn(headless)
    story.writes(9.5, "idle")
    story.writes(10.1, "running")
    assert story.false() == false


def test_the_session_of_a_server_is_idle_until_its_client_sends_the_prompt() -> None:
    story = Story("client")
    story.does(9.0, ME._replace(name="client", process=SECOND))
    story.does(9.1)
    story.writes(9.5, "idle")
    story.asks(9.9)
    story.is_now(10.0, "running")
    story.writes(10.1, "running")
    assert story.false() == []


def test_work_before_a_prompt_is_false() -> None:
    story = Story()
    story.does(9.0)
    story.writes(9.1, "running", activity="unknown")
    story.writes(9.2, "running", activity="working")
    story.is_now(10.0, "idle")
    story.writes(10.1, "idle")
    assert story.false() == ["false running"]


def test_an_event_about_an_unknown_process_is_a_ghost() -> None:
    """However short it lived; and its end is no notification."""
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(11.0, "started", "proc:9@90", "proc:9@90")
    story.writes(11.0, "running", "proc:9@90", "proc:9@90", activity="unknown")
    story.pushes(11.1, "finished", story.writes(11.02, "stopped", "proc:9@90"))
    story.writes(11.5, "idle", "id-9", "proc:9@90")
    assert story.false() == [
        "ghost started",
        "ghost running",
        "ghost stopped",
        "ghost idle",
        "false-notification stopped",
    ]


def test_a_session_without_a_known_id_is_its_processs() -> None:
    """Until it has a prompt, the driver knows no id; the daemon may."""
    story = Story()
    story.does(9.0, NAMELESS)
    story.is_now(10.0, "idle", NAMELESS)
    story.writes(9.9, "idle", "id-5")
    story.writes(10.5, "waiting", "id-5")
    story.is_now(12.0, "stopped", NAMELESS)
    story.writes(12.1, "stopped", "id-5")
    assert story.false() == ["false waiting"]


def test_an_event_with_another_sessions_process_is_false() -> None:
    story = make_turn()
    story.is_now(10.0, "running", OTHER)
    story.writes(10.1, "running", process=SECOND.address)
    story.writes(10.2, "running", "id-2", PROCESS.address)
    assert story.false() == ["false running", "false running"]


def test_a_session_goes_on_in_another_process() -> None:
    story = make_turn()
    story.is_now(14.0, "stopped")
    story.writes(14.1, "stopped")
    story.does(16.0, RESUMED)
    story.writes(16.1, "started", process=SECOND.address)
    story.writes(16.1, "running", process=SECOND.address)
    story.is_now(17.0, "running", RESUMED)
    story.writes(18.5, "stopped")
    assert story.false() == ["false stopped"]


def test_the_end_of_a_process_counts_if_no_event_named_its_session() -> None:
    """It ended before any event named its id; another process made the id known."""
    story = Story()
    story.does(9.0)
    story.writes(9.1, "running", PROCESS.address, activity="unknown")
    story.is_now(10.0, "stopped")
    story.writes(10.1, "stopped", PROCESS.address)
    story.does(12.0, RESUMED)
    story.is_now(12.5, "running", RESUMED)
    story.writes(12.6, "running", process=SECOND.address)
    assert [kind for kind, *_ in story.changes()] == ["reported", "reported"]
    story.writes(9.5, "identified")
    story.writes(9.5, "running")
    assert [kind for kind, *_ in story.changes()] == ["missing", "reported"]


def test_a_session_that_its_process_left_is_stopped() -> None:
    story = Story()
    story.does(9.0, NAMELESS)
    story.is_now(9.5, "waiting", NAMELESS)
    story.writes(9.6, "waiting")
    story.is_now(10.0, "idle", NAMELESS)
    story.writes(10.1, "idle")
    story.does(12.0)
    story.does(12.0, NAMELESS)  # it goes on with another one
    story.writes(12.1, "stopped")
    story.writes(12.1, "started", "id-2")
    story.writes(12.1, "idle", "id-2")
    story.is_now(12.2, "stopped", Who("left", "codex", None, "id-1"))
    story.is_now(12.3, "idle", NAMELESS)
    story.is_now(13.0, "idle", ME._replace(session_id="id-2"))
    assert story.false() == []


def test_a_repeated_beginning_is_false() -> None:
    story = make_turn()
    story.writes(9.1, "started")
    story.writes(9.2, "started")
    assert story.false() == ["false started"]
    unseen = StreamEvent(0, "events.gap", 9.15, "id-1", reason=ANOTHER, span=(9.1, 9.15))
    story.events.insert(1, unseen)
    assert story.false() == []


def test_unknown_is_no_claim() -> None:
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(12.3, "unknown")
    story.writes(12.5, "running", activity="unknown")
    assert [f.kind for f in story.findings()][:3] == ["event", "unknown", "unknown"]


def test_a_blind_change_needs_no_event_and_must_not_be_denied() -> None:
    story = Story()
    story.does(9.0)
    story.asks(9.5)
    story.writes(9.6, "running")
    story.is_now(10.0, "waiting", blind="no trace")
    assert [kind for kind, *_ in story.changes()] == ["unfounded"]
    story.writes(10.5, "running", activity="unknown")
    assert [kind for kind, *_ in story.changes()] == ["blind"]
    assert story.false() == []


def test_changes_without_a_daemon_are_not_counted() -> None:
    story = make_turn()
    story.events.append(StreamEvent(1, "events.gap", 13.0, None, reason=AWAY, span=(9.0, 13.0)))
    assert story.changes() == []


def test_a_notification_of_no_event_is_false() -> None:
    story = make_turn()
    story.pushes(10.0, "waiting", 9)
    assert story.false() == ["false-notification waiting"]


def test_it_is_added_up_and_published() -> None:
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(11.0, "waiting")
    story.pushes(11.1, "waiting", 2)
    findings = score([{"play": "p", "record": encode(story.record)}, {"play": "q", "record": None}])
    assert findings is not None
    one = count_stream(findings)
    assert (one.changes, one.events, one.false, one.missing) == (2, 2, 1, 1)
    assert (one.notifications, one.false_notifications, one.per_100_changes) == (1, 1, 50.0)
    assert [fault["kind"] for fault in bad_findings(findings)] == [
        "false",
        "false-notification",
        "missing",
    ]
    assert [what for what, good in report.met([], [one]).items() if not good][-3:] == [
        "no false event",
        "no change without an event",
        "no false notification",
    ]
    assert score([{"play": "p"}]) is None
    assert "no false event" not in report.met([])  # what was not measured is not met


def test_the_page_shows_the_number_and_each_fault() -> None:
    story = make_turn()
    story.writes(10.1, "running")
    story.writes(11.0, "waiting")
    story.writes(12.3, "idle")
    findings = score([{"play": "a play", "record": encode(story.record)}])
    run = dict.fromkeys(("command", "date", "kernel", "python", "cores", "agents"), "x")
    page = report.page(
        {
            "run": {**run, "interval": 50.0},
            "agents": {"codex": []},
            "stream": {"codex": findings},
            "tools": [],
            "absent": {},
        }
    )
    assert "2 changes, 3 events: 1 false (**50.00 false events per 100 changes**)" in page
    assert "| codex | 2 | 3 | 1 | 50.00 | 0 | 0 | 100 ms | 100 ms |" in page
    assert "| codex | false | a play | waiting | running | 1 |" in page
