"""Which events are shown, and how."""

import argparse
import time

import pytest

from agentctl.cli import happenings
from agentctl.errors import UsageError
from agentctl.truth.event import Event

SESSION = {"pid": 7, "status": "stopped", "outcome": "failed", "exit_code": 3, "reason": "it exited 3"}


def arguments(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"type": [], "adapter": [], "group": None, "session": None, **given})


def told(kind: str = "session.stopped", **more: object) -> Event:
    given = {"adapter": "demo", "subject": "4f2a", "body": {"session": SESSION}, **more}
    return Event(kind, 1.0, **given)  # type: ignore[arg-type]


def test_without_a_filter_all() -> None:
    assert happenings.wanted(told(), arguments())


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"type": ["session.*"]}, True),
        ({"type": ["lock.*"]}, False),
        ({"type": ["lock.*", "session.stopped"]}, True),
        ({"adapter": ["demo"]}, True),
        ({"adapter": ["pi"]}, False),
        ({"session": "4f"}, True),
        ({"session": "5"}, False),
        ({"session": "pid:7"}, True),
        ({"group": "g"}, False),
    ],
)
def test_what_is_asked_for(given: dict[str, object], shown: bool) -> None:
    assert happenings.wanted(told(), arguments(**given)) is shown


def test_a_gap_concerns_everybody() -> None:
    gap = Event("events.gap", 1.0, body={"data": {}})
    assert happenings.wanted(gap, arguments(adapter=["pi"], session="x", group="g"))
    assert not happenings.wanted(gap, arguments(type=["session.*"]))


def test_types_and_patterns() -> None:
    assert happenings.kind("session.idle") == "session.idle"
    assert happenings.kind("lock") == "lock.*"
    assert happenings.kind("*.failed") == "*.failed"
    assert happenings.kind("user.lunch") == "user.lunch"
    with pytest.raises(UsageError, match=r"no event type 'session\.dead'"):
        happenings.kind("session.dead")


def test_a_number_or_a_moment() -> None:
    assert happenings.since("120") == 120
    assert isinstance(happenings.since("120"), int)
    assert happenings.since("1970-01-01T00:01:00Z") == 60.0
    ago = happenings.since("10m")
    assert isinstance(ago, float)
    assert 0 <= time.time() - 600 - ago < 60
    with pytest.raises(UsageError, match="neither an event's number nor a time"):
        happenings.since("yesterday")


def test_a_line_says_who_and_why() -> None:
    line = happenings.line(told(), None, colour=False)
    assert line.endswith("session.stopped     demo 4f2a  failed: it exited 3 (exit code 3)")
    assert "\x1b" in happenings.line(told(), None, colour=True)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (told("session.started", body={"session": {"pid": 7, "cwd": "/w"}}), "pid 7, in /w"),
        (told("session.identified", body={"session": {}, "data": {"was": "proc:7@7"}}), "was proc:7@7"),
        (Event("events.gap", 1.0, body={"data": {"from": "a", "to": "b", "reason": "r"}}), "a to b: r"),
        (Event("lock.acquired", 1.0, subject="/x", body={"data": {"by": "me", "why": None}}), "by me"),
        (Event("launch.failed", 1.0, None, "pi", body={"data": {"launch": "1a", "why": "w"}}), "why w"),
        (told(subject="\x1b[31m", body={"session": {"reason": "a\nb"}}), "a b"),
    ],
)
def test_what_each_kind_says(event: Event, said: str) -> None:
    line = happenings.line(event, None, colour=False)
    assert line.endswith(said)
    assert line.isprintable()
