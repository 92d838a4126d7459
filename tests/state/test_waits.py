"""What was told of a session around a wait."""

import json
from pathlib import Path

import pytest

from agentctl.state import db, journal, waits
from agentctl.truth.event import Event


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "state.db")
    with db.transaction(made) as connection:
        connection.execute(
            "insert into target (kind, name, events) values ('notify', 'desk', ?)",
            (json.dumps(["session.waiting"]),),
        )
    return made


def tell(
    path: str, kind: str, at: float | None = 1.0, subject: str = "s1", what: str = "question"
) -> Event:
    told = Event(kind, 5.0, at, "pi", subject, None, {"session": {"waiting_for": what}})
    return told._replace(seq=journal.record(path, [told])[0])


def delivered(path: str, event: Event) -> None:
    with db.transaction(path) as connection:
        connection.execute("update outbox set phase = 'delivered' where seq = ?", (event.seq,))


def test_what_came_since(path: str) -> None:
    event = tell(path, "session.waiting")
    assert waits.since(path, event) is None
    tell(path, "session.running", subject="another")
    tell(path, "session.unknown")
    tell(path, "session.identified")
    assert waits.since(path, event) is None
    tell(path, "session.running")
    tell(path, "session.waiting")
    assert waits.since(path, event) == "session.waiting"
    tell(path, "session.stopped")
    assert waits.since(path, event) == "session.stopped"


def test_the_same_wait_is_told_once(path: str) -> None:
    first = tell(path, "session.waiting")
    delivered(path, first)
    assert not waits.told(path, "desk", first)
    tell(path, "session.unknown")
    again = tell(path, "session.waiting")
    assert waits.told(path, "desk", again)
    assert not waits.told(path, "another", again)


def test_where_no_source_tells_when_it_began_it_is_the_same(path: str) -> None:
    delivered(path, tell(path, "session.waiting"))
    assert waits.told(path, "desk", tell(path, "session.waiting", at=None))


@pytest.mark.parametrize(
    ("between", "at", "what"),
    [
        ("session.running", 1.0, "question"),
        ("session.idle", 1.0, "question"),
        (None, 2.0, "question"),  # what it did in between was too short to be seen
        (None, 1.0, "permission"),
    ],
)
def test_another_wait_is_told(path: str, between: str | None, at: float, what: str) -> None:
    delivered(path, tell(path, "session.waiting"))
    if between is not None:
        tell(path, between)
    assert not waits.told(path, "desk", tell(path, "session.waiting", at=at, what=what))


def test_one_that_was_not_delivered_was_not_told(path: str) -> None:
    tell(path, "session.waiting")
    assert not waits.told(path, "desk", tell(path, "session.waiting"))


def test_another_session_s_wait_is_another(path: str) -> None:
    delivered(path, tell(path, "session.waiting"))
    assert not waits.told(path, "desk", tell(path, "session.waiting", subject="s2"))
