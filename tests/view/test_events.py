"""How an event is shown."""

import pytest

from agentctl.truth.event import Event
from agentctl.view import events
from tests.cli import hostile

SESSION = {"pid": 7, "status": "stopped", "outcome": "failed", "exit_code": 3, "reason": "it exited 3"}


def told(kind: str = "session.stopped", **more: object) -> Event:
    given = {"adapter": "demo", "subject": "4f2a", "body": {"session": SESSION}, **more}
    return Event(kind, 1.0, **given)  # type: ignore[arg-type]


def test_a_line_says_who_and_why() -> None:
    line = events.line(told(), None, colour=False)
    assert line.endswith("session.stopped     demo 4f2a  failed: it exited 3 (exit code 3)")
    assert "\x1b" in events.line(told(), None, colour=True)


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
    line = events.line(event, None, colour=False)
    assert line.endswith(said)
    assert line.isprintable()


def test_a_type_and_an_agent_of_any_name_command_no_terminal() -> None:
    event = told(f"user.{hostile.ALL}")._replace(adapter=hostile.ALL, subject=hostile.ALL)
    assert hostile.harmful(events.line(event, None, colour=False)) == []
