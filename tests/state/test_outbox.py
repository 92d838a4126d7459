"""Nothing in the outbox is lost, whatever the clock does; each end is told in the same step."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.state import db, journal, outbox
from agentctl.state.journal import Event
from agentctl.state.outbox import Delivery, Lane

LANE = Lane("webhook", "ci")


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "state.db")
    with db.transaction(made) as connection:
        connection.execute(
            "insert into target values ('webhook', 'ci', '[\"session.*\"]', null, null, null)"
        )
    return made


def happened(path: str, at: float, kind: str = "session.idle") -> int:
    return journal.record(path, [Event(kind, at, at, "demo", "s1", "g")])[0]


def due(path: str, now: float, lane: Lane = LANE) -> Delivery:
    found = outbox.next_due(path, lane, now)
    assert found is not None
    return found


def claimed(path: str, now: float, again: float) -> Delivery:
    found = outbox.claim(path, due(path, now), now, again)
    assert found is not None
    return found


def told(path: str) -> list[tuple[str, dict[str, object]]]:
    return [(e.type, dict(e.body["data"])) for e in journal.after(path, 0) if "data" in e.body]


def test_without_a_database_there_is_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "none.db")
    assert outbox.waiting(path, 0) == []
    assert outbox.next_due(path, LANE, 0) is None
    assert outbox.listed(path, "webhook") == []


def test_what_is_written_is_due_at_once(path: str) -> None:
    seq = happened(path, 100.0)
    [one] = outbox.waiting(path, 100.0)
    assert one == (LANE, 1, 0, 100.0)
    assert (due(path, 100.0).seq, due(path, 100.0).attempt) == (seq, 0)
    assert outbox.next_due(path, Lane("webhook", "other"), 100.0) is None
    assert outbox.next_due(path, Lane("webhook", "ci", "http://x"), 100.0) is None


def test_a_try_is_counted_before_it_is_made(path: str) -> None:
    happened(path, 100.0)
    first = claimed(path, 100.0, 101.0)
    assert (first.attempt, first.first_at, first.attempted_at) == (1, 100.0, 100.0)
    assert outbox.next_due(path, LANE, 100.5) is None  # whoever dies here has tried
    second = claimed(path, 101.0, 103.0)
    assert (second.id, second.attempt, second.first_at) == (first.id, 2, 100.0)
    assert outbox.waiting(path, 102.0)[0].due_at == 103.0


def test_delivered_is_told_of_the_session_it_was_about(path: str) -> None:
    seq = happened(path, 100.0)
    one = claimed(path, 100.0, 101.0)
    assert outbox.delivered(path, one, 102.0, {"status": 200})
    assert not outbox.delivered(path, one, 103.0, {"status": 200})
    assert outbox.claim(path, one, 103.0, 104.0) is None
    assert outbox.waiting(path, 1e9) == []
    [event] = journal.after(path, seq)
    assert (event.type, event.adapter, event.subject, event.group) == (
        "webhook.delivered",
        "demo",
        "s1",
        "g",
    )
    assert event.body["data"] == {
        "target": "ci",
        "delivery": one.id,
        "of": {"seq": seq, "type": "session.idle"},
        "attempt": 1,
        "status": 200,
    }
    [(row, kind)] = outbox.listed(path, "webhook", all_of_them=True)
    assert (row.state, row.delivered_at, kind) == ("delivered", 102.0, "session.idle")
    assert outbox.listed(path, "webhook") == []


def test_a_failure_is_in_the_row_alone(path: str) -> None:
    seq = happened(path, 100.0)
    outbox.failed(path, claimed(path, 100.0, 101.0), "no\n" * 1000, 110.0)
    assert journal.last(path) == seq
    [(row, _)] = outbox.listed(path, "webhook")
    assert (row.state, row.due_at) == ("pending", 110.0)
    assert row.error is not None
    assert len(row.error) == outbox.ERROR


def test_given_up_is_told_and_can_be_tried_anew(path: str) -> None:
    happened(path, 100.0)
    one = claimed(path, 100.0, 101.0)
    assert outbox.dead(path, one, 102.0, "gone")
    assert told(path)[0][0] == "webhook.dead"
    assert told(path)[0][1]["error"] == "gone"
    assert outbox.waiting(path, 1e9) == []
    assert outbox.retry(path, [one.id, "none"], 200.0) == 1
    again = due(path, 200.0)
    assert (again.id, again.attempt, again.first_at, again.error) == (one.id, 0, None, "gone")
    outbox.delivered(path, again, 201.0, {})
    assert outbox.retry(path, [one.id], 202.0) == 0  # what was taken is not sent again


def test_not_needed_is_told(path: str) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "insert into target values ('notify', 'me', '[\"session.idle\"]', null, null, null)"
        )
    happened(path, 100.0)
    one = due(path, 100.0, Lane("notify", "me"))
    assert outbox.dropped(path, one, 101.0, "somebody is there")
    assert told(path) == [
        (
            "notify.quiet",
            {
                "target": "me",
                "delivery": one.id,
                "attempt": 0,
                "why": "somebody is there",
                "of": {"seq": 1, "type": "session.idle"},
            },
        )
    ]


def test_one_for_a_target_that_is_gone_is_given_up_by_its_age(path: str) -> None:
    happened(path, 100.0)
    happened(path, 200.0)
    assert outbox.abandon(path, LANE, 150.0, 300.0, "no such target any more") == 1
    assert [row.created_at for row, _ in outbox.listed(path, "webhook") if row.state == "pending"] == [
        200.0
    ]
    assert told(path)[0][1]["error"] == "no such target any more"


def test_a_target_that_takes_one_is_given_the_next(path: str) -> None:
    """Else it would be back for an hour before what waits is tried."""
    for at in (100.0, 101.0, 102.0):
        happened(path, at)
    for now in (103.0, 104.0, 105.0):
        outbox.failed(path, claimed(path, now, now + 1), "refused", 5000.0)
    assert outbox.next_due(path, LANE, 200.0) is None
    happened(path, 200.0)
    taken = []
    while (found := outbox.next_due(path, LANE, 201.0)) is not None:
        taken.append(found.seq)
        assert outbox.claim(path, found, 201.0, 9999.0)
        outbox.delivered(path, found, 201.0, {})
    assert taken == [4, 1, 2, 3]


def test_one_address_is_a_lane_of_its_own(path: str) -> None:
    with db.transaction(path) as connection:
        for number in range(2):
            connection.execute(
                "insert into outbox (id, kind, target, url, seq, created_at, due_at)"
                " values (?, 'webhook', 'fuse', ?, 1, 10, 10)",
                (f"d{number}", f"http://h/{number}"),
            )
    lanes = [one.lane for one in outbox.waiting(path, 10.0)]
    assert lanes == [Lane("webhook", "fuse", "http://h/0"), Lane("webhook", "fuse", "http://h/1")]
    assert due(path, 10.0, lanes[1]).id == "d1"


def test_the_journal_keeps_what_is_to_be_delivered(path: str) -> None:
    happened(path, 100.0, "session.stopped")
    with db.transaction(path) as connection:
        assert journal.prune(connection, 1e9) == 0
    outbox.delivered(path, due(path, 101.0), 102.0, {})
    with db.transaction(path) as connection:
        assert journal.prune(connection, 1e9) == 2


@given(st.floats(0, 1e9), st.lists(st.floats(0, 1e9), min_size=1, max_size=5), st.floats(0, 3600))
def test_no_step_of_the_clock_makes_anything_wait_longer(
    tmp_path_factory: pytest.TempPathFactory, written: float, nows: list[float], pause: float
) -> None:
    """Whatever the clock is set to, it is due at once, or within its pause."""
    path = str(tmp_path_factory.mktemp("clock") / "state.db")
    with db.transaction(path) as connection:
        connection.execute(
            "insert into target values ('webhook', 'ci', ?, null, null, null)", (json.dumps(["*"]),)
        )
    happened(path, written)
    assert outbox.next_due(path, LANE, nows[0]) or nows[0] >= written
    for now in nows:
        found = outbox.next_due(path, LANE, now)
        if found is None:
            [one] = outbox.waiting(path, now)
            assert now < one.due_at <= now + pause
            continue
        assert outbox.waiting(path, now)[0].due_at == 0
        assert outbox.claim(path, found, now, now + pause)
