"""What became of the last notification of each target."""

from pathlib import Path

import pytest

from agentctl.errors import Malformed
from agentctl.state import db, journal, notified
from agentctl.truth.event import Event


def told(kind: str, target: str, seen_at: float) -> Event:
    return Event(kind, seen_at, None, "pi", "s1", None, {"data": {"target": target, "why": "x"}})


def test_the_last_of_each(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    journal.record(
        path,
        [
            told("notify.failed", "desk", 3.0),
            told("notify.delivered", "desk", 2.0),
            told("notify.quiet", "phone", 4.0),
            told("webhook.dead", "ops", 5.0),
        ],
    )
    found = notified.last(path)
    assert {name: (e.type, e.seen_at, e.seq) for name, e in found.items()} == {
        "desk": ("notify.delivered", 2.0, 2),
        "phone": ("notify.quiet", 4.0, 3),
    }
    assert found["phone"].body["data"]["why"] == "x"


def test_how_many_wait(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with db.transaction(path) as connection:
        for number, (kind, state) in enumerate(
            [("notify", "pending"), ("notify", "pending"), ("notify", "dead"), ("webhook", "pending")]
        ):
            connection.execute(
                "insert into outbox (id, kind, target, seq, created_at, due_at, phase)"
                " values (?, ?, 'desk', 1, 1, 1, ?)",
                (str(number), kind, state),
            )
    assert notified.pending(path) == {"desk": 2}


def test_where_nothing_was_told(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    assert (notified.last(path), notified.pending(path)) == ({}, {})
    assert not Path(path).exists()


def test_a_journal_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("not a database at all, however long it is\n" * 99)
    with pytest.raises(Malformed):
        notified.last(str(path))
