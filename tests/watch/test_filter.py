"""Which events are wanted."""

import time
from typing import Any

import pytest

from agentctl.errors import UsageError
from agentctl.truth.event import Event
from agentctl.watch.filter import EventFilter, parse_since, parse_type


def told() -> Event:
    body = {"session": {"pid": 7, "status": "stopped"}}
    return Event("session.stopped", 1.0, adapter="demo", subject="4f2a", body=body)


def test_without_a_filter_all() -> None:
    assert EventFilter().matches(told())


@pytest.mark.parametrize(
    ("given", "shown"),
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
def test_what_is_asked_for(given: dict[str, Any], shown: bool) -> None:
    assert EventFilter(**given).matches(told()) is shown


def test_a_gap_concerns_everybody() -> None:
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


def test_a_number_or_a_moment() -> None:
    assert parse_since("120") == 120
    assert isinstance(parse_since("120"), int)
    assert parse_since("1970-01-01T00:01:00Z") == 60.0
    before = time.time()
    ago = parse_since("10m")
    assert isinstance(ago, float)
    assert before - 600 <= ago <= time.time() - 600
    with pytest.raises(UsageError, match="neither an event's number nor a time"):
        parse_since("yesterday")
