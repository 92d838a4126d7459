"""Every change is reported once, in order; a time without looks is reported as a gap."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.clock import parse_time
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Authority, Evidence, Launch, Observation, Session
from agentctl.truth.observe import SETTLED_AFTER
from agentctl.watch.schedule import DOUBT
from agentctl.watch.sources import Writes
from agentctl.watch.story import STAMPED, Report, Story, hold_seconds, key_of

CLAIMS = {"running": "working", "idle": "idle", "waiting": "waiting"}


def make_process(pid: int) -> Process:
    return Process(ProcessIdentity("boot", pid, pid), 1, "S", "demo-agent")


def make_session(
    status: str,
    at: float | None = None,
    *,
    pid: int = 7,
    session_id: str | None = "s1",
    authority: Authority = "record",
    detail: str = "",
    began: float = 50.0,
    note: str = "",
) -> Session:
    owner = make_process(pid) if status in CLAIMS else None
    alive = Evidence("alive", f"proc:{pid}@{pid}", "kernel", at=began)
    evidence: tuple[Evidence, ...]
    if status == "stopped":
        evidence = (Evidence("gone", f"proc:{pid}@{pid}", "kernel"),)
    elif status == "unknown":
        evidence = (Evidence("ambiguous", "/x", "kernel", note="two"),)
    else:
        claim: Any = CLAIMS[status]
        evidence = (alive, Evidence(claim, "/r.json", authority, at, detail, note))
    session = Session(Observation("demo", session_id, evidence, owner=owner), judge(evidence))
    assert session.verdict.status == status
    return session


def event_types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def begun_story(since: float | None = None) -> Story:
    story = Story((), since)
    story.is_begun = True
    return story


def test_a_new_session_starts_and_has_a_status() -> None:
    events = begun_story().update(make_session("running", 10.0), 100.0)
    assert event_types(events) == ["session.started", "session.running"]
    assert [e.at for e in events] == [50.0, 10.0]
    assert {(e.adapter, e.subject, e.seen_at) for e in events} == {("demo", "s1", 100.0)}


def test_at_the_first_look_only_a_session_that_began_since_the_last_one_has_started() -> None:
    assert event_types(Story().update(make_session("idle"), 100.0)) == ["session.idle"]
    assert event_types(Story((), 60.0).update(make_session("idle", began=50.0), 100.0)) == [
        "session.idle"
    ]
    fresh = Story((), 40.0).update(make_session("idle", began=50.0), 100.0)
    assert event_types(fresh) == ["session.started", "session.idle"]


def test_the_same_status_is_reported_once() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    assert story.update(make_session("idle", 10.0), 101.0) == []


def test_another_reason_to_wait_is_a_change() -> None:
    story = begun_story()
    story.update(make_session("waiting", 10.0, detail="permission"), 100.0)
    later = make_session("waiting", 10.0, detail="question")
    assert event_types(story.update(later, 101.0)) == ["session.waiting"]


def test_a_session_that_lives_again_has_started() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    assert event_types(story.update(make_session("stopped"), 101.0)) == ["session.stopped"]
    assert story.live == set()
    assert event_types(story.update(make_session("stopped"), 101.0)) == []
    again = story.update(make_session("idle", 10.0, pid=8), 102.0)
    assert event_types(again) == ["session.started", "session.idle"]
    assert story.live == {("demo", "s1")}


def test_another_process_of_a_session_leaves_a_gap() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    changed = story.update(make_session("running", 101.0, pid=8), 102.0)
    assert event_types(changed) == ["events.gap", "session.started", "session.running"]


def test_another_process_that_had_no_session_leaves_a_gap() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    story.update(make_session("running", session_id=None, pid=8), 101.0)
    changed = story.update(make_session("running", 101.0, pid=8), 102.0)
    assert event_types(changed) == ["events.gap", "session.identified", "session.running"]


def test_a_session_that_was_unknown_goes_on() -> None:
    story = begun_story()
    story.update(make_session("running", 10.0), 100.0)
    assert event_types(story.update(make_session("unknown"), 101.0)) == ["session.unknown"]
    assert event_types(story.update(make_session("running", 10.0), 102.0)) == ["session.running"]


def test_another_process_of_an_unknown_session_leaves_a_gap() -> None:
    story = begun_story()
    story.update(make_session("running", 10.0), 100.0)
    story.update(make_session("unknown"), 101.0)
    changed = story.update(make_session("running", 102.0, pid=8), 103.0)
    assert event_types(changed) == ["events.gap", "session.started", "session.running"]


def test_a_process_that_gets_a_session_starts_once() -> None:
    story = begun_story()
    nameless = story.update(make_session("running", session_id=None), 100.0)
    assert [(e.type, e.subject) for e in nameless] == [
        ("session.started", "proc:7@7"),
        ("session.running", "proc:7@7"),
    ]
    identified = story.update(make_session("idle", 10.0), 101.0)
    assert event_types(identified) == ["session.identified", "session.idle"]
    assert identified[0].body["data"]["was"] == "proc:7@7"
    assert story.live == {("demo", "s1")}


def test_a_process_without_a_session_that_ended_is_known_by_its_evidence() -> None:
    assert key_of(make_session("stopped", session_id=None)) == ("demo", "proc:7@7")


def test_the_same_status_of_a_later_time_leaves_a_gap() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0, authority="journal"), 100.0)
    again = story.update(make_session("idle", 20.0, authority="journal"), 101.0)
    assert event_types(again) == ["events.gap", "session.idle"]
    data = again[0].body["data"]
    assert (parse_time(data["from"]), parse_time(data["to"])) == (10.0, 20.0)


def test_another_note_for_the_same_status_is_no_event() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0, note="status idle"), 100.0)
    assert story.update(make_session("idle", 20.0, note="status waiting: dialog open"), 101.0) == []
    again = story.update(make_session("idle", 30.0, note="status waiting: dialog open"), 102.0)
    assert event_types(again) == ["events.gap", "session.idle"]


def test_another_derived_time_is_no_event() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0, authority="derived"), 100.0)
    assert story.update(make_session("idle", 10.001, authority="derived"), 101.0) == []


def test_a_process_that_hides_its_session_does_not_start_again() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    assert story.update(make_session("running", session_id=None), 101.0) == []
    story.update(make_session("stopped"), 102.0)
    assert (
        event_types(story.update(make_session("running", session_id=None), 103.0))[0]
        == "session.started"
    )


def test_a_transcript_that_grows_in_an_open_turn_is_no_event() -> None:
    story = begun_story()
    story.update(make_session("running", 10.0, authority="journal"), 100.0)
    assert story.update(make_session("running", 20.0, authority="journal"), 101.0) == []
    assert event_types(story.update(make_session("running", 30.0, authority="record"), 102.0)) == [
        "events.gap",
        "session.running",
    ]


def test_an_unread_write_of_a_record_leaves_a_gap() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    once = story.update(make_session("running", 101.0), 101.1, Writes(1, 101.0))
    assert event_types(once) == ["session.running"]
    missed = story.update(make_session("idle", 102.5), 103.0, Writes(2, 102.1))
    assert event_types(missed) == ["events.gap", "session.idle"]
    data = missed[0].body["data"]
    assert (parse_time(data["from"]), parse_time(data["to"])) == (102.1 - STAMPED, 102.5)
    unknown = story.update(make_session("running", 104.0), 104.0, Writes(None, 0.0))
    assert event_types(unknown) == ["events.gap", "session.running"]
    assert parse_time(unknown[0].body["data"]["from"]) == 102.5


def test_a_gap_does_not_begin_before_the_last_event() -> None:
    story = begun_story()
    story.update(make_session("idle", 102.0), 102.0)
    missed = story.update(make_session("running", 102.5), 103.0, Writes(3, 102.1))
    assert parse_time(missed[0].body["data"]["from"]) == 102.0


def test_a_record_written_twice_within_one_status_leaves_a_gap() -> None:
    story = begun_story()
    story.update(make_session("idle", 10.0), 100.0)
    shell = make_session("idle", 20.0, note="background shell")
    assert story.update(shell, 101.0, Writes(1, 20.0)) == []
    again = story.update(make_session("idle", 30.0), 102.0, Writes(2, 25.0))
    assert event_types(again) == ["events.gap", "session.idle"]


STATES = st.sampled_from(["running", "idle", "waiting", "unknown", "stopped"])
STEPS = st.lists(st.tuples(STATES, st.integers(7, 9), st.integers(0, 3)), max_size=30)


@given(STEPS)
def test_a_story_resumed_from_the_journal_reports_the_same(
    steps: list[tuple[str, int, int]],
) -> None:
    """It may be interrupted after any event."""
    whole, recorded = begun_story(), list[Event]()
    now = 100.0
    for status, pid, at in steps:
        now += 1.0
        session = make_session(status, float(at), pid=pid)
        resumed = Story(_read_back(recorded[-1:]), now)
        resumed.is_begun = True
        expected = whole.update(session, now)
        assert event_types(resumed.update(session, now)) == event_types(expected)
        recorded += expected


@given(STEPS)
def test_the_last_event_has_the_last_status_and_is_not_repeated(
    steps: list[tuple[str, int, int]],
) -> None:
    story, last = begun_story(), None
    for status, pid, at in steps:
        session = make_session(status, float(at), pid=pid)
        events = story.update(session, 100.0)
        if events:
            assert events[-1].type == f"session.{status}"
            assert events[-1].body["session"]["status"] == status
            last = status
        assert last == status
        assert story.update(session, 101.0) == []
        assert (("demo", "s1") in story.live) == (status != "stopped")


def _read_back(events: list[Event]) -> list[Event]:
    return [event._replace(body=json.loads(json.dumps(event.body))) for event in events]


ALIVE = Evidence("alive", "proc:1@1", "kernel")
GONE = Evidence("gone", "proc:1@1", "kernel")
ASKS = Evidence("waiting", "/s", "derived", 5.0, "permission")
CHOOSES = Evidence("waiting", "/s", "derived", 5.0, "startup")
SAYS = Evidence("waiting", "/s.json", "record", 5.0, "permission")
WORKS = Evidence("working", "/s", "journal", 5.0)
HIDDEN = Evidence("hidden", "/s", "journal")


def session_of(*evidence: Evidence, launch: Launch | None = None) -> Session:
    return Session(Observation("x", "s", evidence), judge(evidence), launch)


def report(status: str, activity: str = "") -> Report:
    return Report(status, None, None, 1.0, activity=activity)


@pytest.mark.parametrize(
    ("session", "before", "patience"),
    [
        (session_of(ALIVE, ASKS), report("running", "working"), SETTLED_AFTER),
        (session_of(ALIVE, ASKS), report("waiting"), 0.0),
        (session_of(ALIVE, CHOOSES), report("running", "unknown"), 0.0),
        (session_of(ALIVE, SAYS), report("running", "working"), 0.0),
        (session_of(ALIVE, WORKS), report("waiting"), 0.0),
        (session_of(ALIVE, WORKS), report("running", "unknown"), 0.0),
        (session_of(ALIVE), report("running", "working"), SETTLED_AFTER),
        (session_of(ALIVE), report("running", "unknown"), 0.0),
        (session_of(ALIVE), report("idle"), DOUBT),
        (session_of(ALIVE), report("waiting"), DOUBT),
        (session_of(ALIVE), report("stopped"), 0.0),
        (session_of(ALIVE), None, 0.0),
        (session_of(HIDDEN), report("running", "working"), DOUBT),
        (session_of(HIDDEN), report("unknown"), 0.0),
        (session_of(GONE), report("running", "working"), 0.0),
    ],
)
def test_a_doubtful_change_is_held_by_the_report_before(
    session: Session, before: Report | None, patience: float
) -> None:
    assert hold_seconds(session, before, begun=True) == patience


@pytest.mark.parametrize("evidence", [(HIDDEN,), (ALIVE, ASKS)])
def test_the_first_look_holds_nothing(evidence: tuple[Evidence, ...]) -> None:
    assert hold_seconds(session_of(*evidence), None, begun=False) == 0.0
    assert hold_seconds(session_of(*evidence), None, begun=True) > 0.0


def test_the_end_of_a_launch_waits_for_its_exit_code() -> None:
    launch = Launch("l", ProcessIdentity("b", 1, 1))
    assert hold_seconds(session_of(GONE, launch=launch), report("running"), begun=True) == DOUBT


def test_an_end_waits_for_a_launcher_that_may_have_started_it() -> None:
    before = report("running")
    assert hold_seconds(session_of(GONE), before, begun=True, launching=True) == DOUBT
    assert hold_seconds(session_of(GONE), before, begun=True) == 0.0
    assert hold_seconds(session_of(GONE), report("stopped"), begun=True, launching=True) == 0.0
