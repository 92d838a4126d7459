"""The public shape of an event."""

import json

from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, Observation, Session
from agentctl.wire import event as events
from agentctl.wire import session as shapes

EVIDENCE = (Evidence("gone", "/proc", "kernel"), Evidence("idle", "/t@1", "journal", detail="completed"))
SESSION = Session(Observation("demo", "s1", EVIDENCE), judge(EVIDENCE))


def test_an_event_about_a_session() -> None:
    row = events.dump_event(
        Event("session.stopped", 2.0, 1.0, "demo", "s1", "g", events.make_session_body(SESSION, a=1), 7)
    )
    assert row["seq"] == 7
    assert (row["at"], row["seen_at"]) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z")
    assert row["session"] == shapes.dump_session(shapes.wire_session(SESSION))
    assert [piece["claim"] for piece in row["evidence"]] == ["gone", "idle"]
    assert row["data"] == {"a": 1}
    json.dumps(row)


def test_only_the_beginning_of_a_prompt_is_in_an_event() -> None:
    facts = Facts(prompt="a prompt " * 100)
    session = Session(SESSION.observation._replace(facts=facts), SESSION.verdict)
    assert events.make_session_body(session)["session"]["prompt"] == ("a prompt " * 100)[: events.PROMPT]
    assert events.make_session_body(SESSION)["session"]["prompt"] is None


def test_an_event_about_no_session() -> None:
    row = events.dump_event(Event("lock.acquired", 2.0, subject="/x", body={"data": {"by": "me"}}))
    assert (row["session"], row["evidence"], row["seq"]) == (None, [], None)


def test_each_type_has_its_own_name() -> None:
    names = [name for name, _ in events.TYPES]
    assert len(names) == len(set(names))
    assert {name.partition(".")[0] for name in names} >= {"session", "launch", "hook", "lock", "fuse"}


def test_events_are_in_an_envelope() -> None:
    row = events.dump_events([Event("a.b", 1.0), Event("a.c", 2.0)])
    assert row["version"] == events.VERSION
    assert [event["type"] for event in row["events"]] == ["a.b", "a.c"]
