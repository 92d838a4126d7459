"""Every change is told once, in order; what nobody looked at is told as a gap."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentctl.system.clock import parse
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Authority, Evidence, Observation, Session
from agentctl.watch.story import STAMPED, Story, key_of
from agentctl.watch.writes import Written

CLAIMS = {"running": "working", "idle": "idle", "waiting": "waiting"}


def process(pid: int) -> Process:
    return Process(ProcessIdentity("boot", pid, pid), 1, "S", "demo-agent")


def found(
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
    owner = process(pid) if status in CLAIMS else None
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


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def story(since: float | None = None) -> Story:
    made = Story((), since)
    made.begun = True
    return made


def test_a_new_one_starts_and_has_a_status() -> None:
    told = story().tell(found("running", 10.0), 100.0)
    assert types(told) == ["session.started", "session.running"]
    assert [e.at for e in told] == [50.0, 10.0]
    assert {(e.adapter, e.subject, e.seen_at) for e in told} == {("demo", "s1", 100.0)}


def test_at_the_first_look_only_what_began_since_somebody_watched_has_started() -> None:
    assert types(Story().tell(found("idle"), 100.0)) == ["session.idle"]
    assert types(Story((), 60.0).tell(found("idle", began=50.0), 100.0)) == ["session.idle"]
    fresh = Story((), 40.0).tell(found("idle", began=50.0), 100.0)
    assert types(fresh) == ["session.started", "session.idle"]


def test_the_same_again_is_told_once() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    assert told.tell(found("idle", 10.0), 101.0) == []


def test_what_it_waits_for_is_a_change() -> None:
    told = story()
    told.tell(found("waiting", 10.0, detail="permission"), 100.0)
    later = found("waiting", 10.0, detail="question")
    assert types(told.tell(later, 101.0)) == ["session.waiting"]


def test_one_that_ended_and_lives_again_has_started() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    assert types(told.tell(found("stopped"), 101.0)) == ["session.stopped"]
    assert told.living == set()
    assert types(told.tell(found("stopped"), 101.0)) == []
    again = told.tell(found("idle", 10.0, pid=8), 102.0)
    assert types(again) == ["session.started", "session.idle"]
    assert told.living == {("demo", "s1")}


def test_another_process_runs_it_and_nobody_saw_the_end_of_the_first() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    changed = told.tell(found("running", 101.0, pid=8), 102.0)
    assert types(changed) == ["events.gap", "session.started", "session.running"]


def test_a_process_that_had_no_session_runs_it_and_nobody_saw_the_end_of_the_first() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    told.tell(found("running", session_id=None, pid=8), 101.0)
    changed = told.tell(found("running", 101.0, pid=8), 102.0)
    assert types(changed) == ["events.gap", "session.identified", "session.running"]


def test_one_of_which_nobody_could_tell_goes_on() -> None:
    told = story()
    told.tell(found("running", 10.0), 100.0)
    assert types(told.tell(found("unknown"), 101.0)) == ["session.unknown"]
    assert types(told.tell(found("running", 10.0), 102.0)) == ["session.running"]


def test_another_process_runs_one_of_which_nobody_could_tell() -> None:
    told = story()
    told.tell(found("running", 10.0), 100.0)
    told.tell(found("unknown"), 101.0)
    changed = told.tell(found("running", 102.0, pid=8), 103.0)
    assert types(changed) == ["events.gap", "session.started", "session.running"]


def test_a_process_that_gets_a_session_is_not_two() -> None:
    told = story()
    nameless = told.tell(found("running", session_id=None), 100.0)
    assert [(e.type, e.subject) for e in nameless] == [
        ("session.started", "proc:7@7"),
        ("session.running", "proc:7@7"),
    ]
    named = told.tell(found("idle", 10.0), 101.0)
    assert types(named) == ["session.identified", "session.idle"]
    assert named[0].body["data"]["was"] == "proc:7@7"
    assert told.living == {("demo", "s1")}


def test_a_process_without_a_session_that_ended_is_known_by_its_evidence() -> None:
    assert key_of(found("stopped", session_id=None)) == ("demo", "proc:7@7")


def test_it_was_something_else_and_is_the_same_again() -> None:
    told = story()
    told.tell(found("idle", 10.0, authority="journal"), 100.0)
    again = told.tell(found("idle", 20.0, authority="journal"), 101.0)
    assert types(again) == ["events.gap", "session.idle"]
    data = again[0].body["data"]
    assert (parse(data["from"]), parse(data["to"])) == (10.0, 20.0)


def test_another_word_of_its_record_for_the_same_status_is_no_news() -> None:
    told = story()
    told.tell(found("idle", 10.0, note="status idle"), 100.0)
    assert told.tell(found("idle", 20.0, note="status waiting: dialog open"), 101.0) == []
    again = told.tell(found("idle", 30.0, note="status waiting: dialog open"), 102.0)
    assert types(again) == ["events.gap", "session.idle"]


def test_a_moment_that_is_derived_is_no_news() -> None:
    told = story()
    told.tell(found("idle", 10.0, authority="derived"), 100.0)
    assert told.tell(found("idle", 10.001, authority="derived"), 101.0) == []


def test_a_process_that_hides_its_session_is_not_another_one() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    assert told.tell(found("running", session_id=None), 101.0) == []
    told.tell(found("stopped"), 102.0)
    assert types(told.tell(found("running", session_id=None), 103.0))[0] == "session.started"


def test_a_transcript_of_an_open_turn_moves_all_the_time() -> None:
    told = story()
    told.tell(found("running", 10.0, authority="journal"), 100.0)
    assert told.tell(found("running", 20.0, authority="journal"), 101.0) == []
    assert types(told.tell(found("running", 30.0, authority="record"), 102.0)) == [
        "events.gap",
        "session.running",
    ]


def test_a_record_that_changed_before_it_said_this_said_something_else() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    once = told.tell(found("running", 101.0), 101.1, Written(1, 101.0))
    assert types(once) == ["session.running"]
    missed = told.tell(found("idle", 102.5), 103.0, Written(2, 102.1))
    assert types(missed) == ["events.gap", "session.idle"]
    data = missed[0].body["data"]
    assert (parse(data["from"]), parse(data["to"])) == (102.1 - STAMPED, 102.5)
    unknown = told.tell(found("running", 104.0), 104.0, Written(None, 0.0))
    assert types(unknown) == ["events.gap", "session.running"]
    assert parse(unknown[0].body["data"]["from"]) == 102.5


def test_a_gap_does_not_begin_before_what_was_told() -> None:
    told = story()
    told.tell(found("idle", 102.0), 102.0)
    missed = told.tell(found("running", 102.5), 103.0, Written(3, 102.1))
    assert parse(missed[0].body["data"]["from"]) == 102.0


def test_a_record_that_moved_within_one_status_has_left_it_if_it_was_written_twice() -> None:
    told = story()
    told.tell(found("idle", 10.0), 100.0)
    shell = found("idle", 20.0, note="background shell")
    assert told.tell(shell, 101.0, Written(1, 20.0)) == []
    again = told.tell(found("idle", 30.0), 102.0, Written(2, 25.0))
    assert types(again) == ["events.gap", "session.idle"]


STATES = st.sampled_from(["running", "idle", "waiting", "unknown", "stopped"])
STEPS = st.lists(st.tuples(STATES, st.integers(7, 9), st.integers(0, 3)), max_size=30)


@given(STEPS)
def test_told_again_from_the_journal_it_goes_on_as_if_nothing_had_been(
    steps: list[tuple[str, int, int]],
) -> None:
    """A story that is broken off anywhere and gone on with tells the same as one that is not."""
    whole, written = story(), list[Event]()
    now = 100.0
    for status, pid, at in steps:
        now += 1.0
        session = found(status, float(at), pid=pid)
        resumed = Story(_read_back(written[-1:]), now)
        resumed.begun = True
        expected = whole.tell(session, now)
        assert types(resumed.tell(session, now)) == types(expected)
        written += expected


@given(STEPS)
def test_the_last_word_is_what_was_found_and_never_told_twice(steps: list[tuple[str, int, int]]) -> None:
    told, last = story(), None
    for status, pid, at in steps:
        session = found(status, float(at), pid=pid)
        events = told.tell(session, 100.0)
        if events:
            assert events[-1].type == f"session.{status}"
            assert events[-1].body["session"]["status"] == status
            last = status
        assert last == status
        assert told.tell(session, 101.0) == []
        assert (("demo", "s1") in told.living) == (status != "stopped")


def _read_back(events: list[Event]) -> list[Event]:
    return [event._replace(body=json.loads(json.dumps(event.body))) for event in events]
