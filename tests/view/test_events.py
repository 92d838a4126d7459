"""How an event is shown."""

import pytest

from agentctl.truth.event import Event
from agentctl.view import events
from tests.cli import hostile

SESSION = {"pid": 7, "status": "stopped", "outcome": "failed", "exit_code": 3, "reason": "it exited 3"}


def make_event(kind: str = "session.stopped", **more: object) -> Event:
    fields = {"adapter": "demo", "subject": "4f2a", "body": {"session": SESSION}, **more}
    return Event(kind, 1.0, **fields)  # type: ignore[arg-type]


def test_a_line_has_the_session_and_the_reason() -> None:
    line = events.render_event(make_event(), None, colour=False)
    assert line.endswith("session.stopped     demo 4f2a  failed: it exited 3 (exit code 3)")
    assert "\x1b" in events.render_event(make_event(), None, colour=True)


@pytest.mark.parametrize(
    ("event", "ending"),
    [
        (make_event("session.started", body={"session": {"pid": 7, "cwd": "/w"}}), "pid 7, in /w"),
        (
            make_event("session.identified", body={"session": {}, "data": {"was": "proc:7@7"}}),
            "was proc:7@7",
        ),
        (Event("events.gap", 1.0, body={"data": {"from": "a", "to": "b", "reason": "r"}}), "a to b: r"),
        (Event("lock.acquired", 1.0, subject="/x", body={"data": {"by": "me", "why": None}}), "by me"),
        (Event("launch.failed", 1.0, None, "pi", body={"data": {"launch": "1a", "why": "w"}}), "why w"),
        (make_event(subject="\x1b[31m", body={"session": {"reason": "a\nb"}}), "a b"),
    ],
)
def test_a_line_ends_with_the_facts_of_its_kind(event: Event, ending: str) -> None:
    line = events.render_event(event, None, colour=False)
    assert line.endswith(ending)
    assert line.isprintable()


def test_hostile_types_and_names_are_harmless() -> None:
    event = make_event(f"user.{hostile.ALL}")._replace(adapter=hostile.ALL, subject=hostile.ALL)
    assert hostile.harmful(events.render_event(event, None, colour=False)) == []
    unnamed = event._replace(subject=None, body={"data": {"launch": hostile.ALL}})
    assert hostile.harmful(events.render_event(unnamed, None, colour=False)) == []
