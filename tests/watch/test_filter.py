"""The filter of events."""

import time
from typing import Any

import pytest

from agentctl.errors import UsageError
from agentctl.truth.event import Event
from agentctl.watch.filter import EventFilter, parse_since, parse_type


def make_event() -> Event:
    body = {"session": {"pid": 7, "status": "stopped"}}
    return Event("session.stopped", 1.0, adapter="demo", subject="4f2a", body=body)


def test_an_empty_filter_matches_every_event() -> None:
    assert EventFilter().matches(make_event())


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({"types": ["session.*"]}, True),
        ({"types": ["lock.*"]}, False),
        ({"types": ["lock.*", "session.stopped"]}, True),
        ({"adapters": ["demo"]}, True),
        ({"adapters": ["pi"]}, False),
        ({"session": "4f"}, True),
        ({"session": "5"}, False),
        ({"session": "pid:7"}, True),
        ({"group": "g"}, False),
    ],
)
def test_each_field_of_a_filter(fields: dict[str, Any], matches: bool) -> None:
    assert EventFilter(**fields).matches(make_event()) is matches


def test_a_gap_matches_every_session() -> None:
    gap = Event("events.gap", 1.0, body={"data": {}})
    assert EventFilter(adapters=["pi"], session="x", group="g").matches(gap)
    assert not EventFilter(types=["session.*"]).matches(gap)


def test_types_and_patterns() -> None:
    assert parse_type("session.idle") == "session.idle"
    assert parse_type("lock") == "lock.*"
    assert parse_type("*.failed") == "*.failed"
    assert parse_type("user.lunch") == "user.lunch"
    with pytest.raises(UsageError, match=r"no event type 'session\.dead'"):
        parse_type("session.dead")


def test_since_is_a_number_or_a_time() -> None:
    assert parse_since("120") == 120
    assert isinstance(parse_since("120"), int)
    assert parse_since("1970-01-01T00:01:00Z") == 60.0
    before = time.time()
    ago = parse_since("10m")
    assert isinstance(ago, float)
    assert before - 600 <= ago <= time.time() - 600
    with pytest.raises(UsageError, match="neither an event number nor a time"):
        parse_since("yesterday")
