"""The public shape of an event."""

import json

from agentctl.truth.event import Event
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Facts, Observation, Session
from agentctl.wire import event as events
from agentctl.wire import session as shapes

EVIDENCE = (Evidence("gone", "/proc", "kernel"), Evidence("idle", "/t@1", "journal", detail="completed"))
SESSION = Session(Observation("demo", "s1", EVIDENCE), judge(EVIDENCE))


def test_every_field_and_no_other() -> None:
    told = events.event(
        Event("session.stopped", 2.0, 1.0, "demo", "s1", "g", events.body(SESSION, a=1), 7)
    )
    assert list(told) == [name for name, _, _ in events.EVENT_FIELDS]
    assert told["seq"] == 7
    assert (told["at"], told["seen_at"]) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z")
    assert told["session"] == shapes.session(SESSION)
    assert [piece["claim"] for piece in told["evidence"]] == ["gone", "idle"]
    assert told["data"] == {"a": 1}
    json.dumps(told)


def test_of_a_prompt_only_the_beginning() -> None:
    facts = Facts(prompt="a prompt " * 100)
    session = Session(SESSION.seen._replace(facts=facts), SESSION.verdict)
    assert events.body(session)["session"]["prompt"] == ("a prompt " * 100)[: events.PROMPT]
    assert events.body(SESSION)["session"]["prompt"] is None


def test_one_about_no_session() -> None:
    told = events.event(Event("lock.acquired", 2.0, subject="/x", body={"data": {"by": "me"}}))
    assert (told["session"], told["evidence"], told["seq"]) == (None, [], None)


def test_types_are_told_apart() -> None:
    names = [name for name, _ in events.TYPES]
    assert len(names) == len(set(names))
    assert {name.partition(".")[0] for name in names} >= {"session", "launch", "hook", "lock", "fuse"}


def test_several_in_an_envelope() -> None:
    told = events.envelope([Event("a.b", 1.0), Event("a.c", 2.0)])
    assert told["version"] == events.VERSION
    assert [event["type"] for event in told["events"]] == ["a.b", "a.c"]
