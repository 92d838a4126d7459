"""No delivery is lost, whatever the clock does, and the end of each is an event in the same step."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.config import settings as config
from agentctl.config.settings import Config
from agentctl.errors import Malformed
from agentctl.state import db, journal, outbox
from agentctl.state.outbox import Delivery, Lane
from agentctl.truth.event import Event

LANE = Lane("webhook", "ci")


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = str(tmp_path / "state.db")
    with db.transaction(file) as connection:
        connection.execute(
            "insert into target values ('webhook', 'ci', '[\"session.*\"]', null, null, null)"
        )
    return file


@pytest.fixture
def empty(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def append_event(path: str, at: float, kind: str = "session.idle") -> int:
    return journal.append_events(path, [Event(kind, at, at, "demo", "s1", "g")])[0]


def find_due(path: str, now: float, lane: Lane = LANE) -> Delivery:
    delivery = outbox.find_next_due(path, lane, now)
    assert delivery is not None
    return delivery


def claim_due(path: str, now: float, again: float) -> Delivery:
    delivery = outbox.claim_delivery(path, find_due(path, now), now, again)
    assert delivery is not None
    return delivery


def read_event_data(path: str) -> list[tuple[str, dict[str, object]]]:
    return [(e.type, dict(e.body["data"])) for e in journal.read_after(path, 0) if "data" in e.body]


def test_without_a_database_there_are_no_deliveries(tmp_path: Path) -> None:
    path = str(tmp_path / "none.db")
    assert outbox.list_lanes(path, 0) == []
    assert outbox.find_next_due(path, LANE, 0) is None
    assert outbox.list_deliveries(path, "webhook") == []


def test_a_new_delivery_is_due_at_once(path: str) -> None:
    seq = append_event(path, 100.0)
    [one] = outbox.list_lanes(path, 100.0)
    assert one == (LANE, 1, 0, 100.0)
    assert (find_due(path, 100.0).seq, find_due(path, 100.0).attempt) == (seq, 0)
    assert outbox.find_next_due(path, Lane("webhook", "other"), 100.0) is None
    assert outbox.find_next_due(path, Lane("webhook", "ci", "http://x"), 100.0) is None


def test_an_attempt_is_counted_before_it_is_made(path: str) -> None:
    append_event(path, 100.0)
    first = claim_due(path, 100.0, 101.0)
    assert (first.attempt, first.first_at, first.attempted_at) == (1, 100.0, 100.0)
    assert (
        outbox.find_next_due(path, LANE, 100.5) is None
    )  # a process that dies here has made its attempt
    second = claim_due(path, 101.0, 103.0)
    assert (second.id, second.attempt, second.first_at) == (first.id, 2, 100.0)
    assert outbox.list_lanes(path, 102.0)[0].due_at == 103.0


def test_a_delivery_is_recorded_for_the_session_it_is_about(path: str) -> None:
    seq = append_event(path, 100.0)
    one = claim_due(path, 100.0, 101.0)
    assert outbox.record_delivered(path, one, 102.0, {"status": 200})
    assert not outbox.record_delivered(path, one, 103.0, {"status": 200})
    assert outbox.claim_delivery(path, one, 103.0, 104.0) is None
    assert outbox.list_lanes(path, 1e9) == []
    [event] = journal.read_after(path, seq)
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
    [(row, kind)] = outbox.list_deliveries(path, "webhook", all_of_them=True)
    assert (row.state, row.delivered_at, kind) == ("delivered", 102.0, "session.idle")
    assert outbox.list_deliveries(path, "webhook") == []


def test_a_failed_attempt_is_recorded_in_the_row_alone(path: str) -> None:
    seq = append_event(path, 100.0)
    outbox.record_failure(path, claim_due(path, 100.0, 101.0), "no\n" * 1000, 110.0)
    assert journal.read_last_seq(path) == seq
    [(row, _)] = outbox.list_deliveries(path, "webhook")
    assert (row.state, row.due_at) == ("pending", 110.0)
    assert row.error is not None
    assert len(row.error) == outbox.ERROR


def test_a_dead_delivery_is_an_event_and_can_be_retried(path: str) -> None:
    append_event(path, 100.0)
    one = claim_due(path, 100.0, 101.0)
    assert outbox.record_dead(path, one, 102.0, "gone")
    assert read_event_data(path)[0][0] == "webhook.dead"
    assert read_event_data(path)[0][1]["error"] == "gone"
    assert outbox.list_lanes(path, 1e9) == []
    assert outbox.retry_deliveries(path, [one.id, "none"], 200.0) == 1
    again = find_due(path, 200.0)
    assert (again.id, again.attempt, again.first_at, again.error) == (one.id, 0, None, "gone")
    outbox.record_delivered(path, again, 201.0, {})
    assert outbox.retry_deliveries(path, [one.id], 202.0) == 0  # what has arrived is not sent again


def test_a_dropped_delivery_is_an_event(path: str) -> None:
    with db.transaction(path) as connection:
        connection.execute(
            "insert into target values ('notify', 'me', '[\"session.idle\"]', null, null, null)"
        )
    append_event(path, 100.0)
    one = find_due(path, 100.0, Lane("notify", "me"))
    assert outbox.record_dropped(path, one, 101.0, "the user is there")
    assert read_event_data(path) == [
        (
            "notify.quiet",
            {
                "target": "me",
                "delivery": one.id,
                "attempt": 0,
                "why": "the user is there",
                "of": {"seq": 1, "type": "session.idle"},
            },
        )
    ]


def test_a_delivery_to_a_removed_target_is_given_up_by_its_age(path: str) -> None:
    append_event(path, 100.0)
    append_event(path, 200.0)
    assert outbox.abandon_lane(path, LANE, 150.0, 300.0, "no such target any more") == 1
    assert [
        row.created_at for row, _ in outbox.list_deliveries(path, "webhook") if row.state == "pending"
    ] == [200.0]
    assert read_event_data(path)[0][1]["error"] == "no such target any more"


def test_a_target_that_accepts_a_delivery_gets_the_next(path: str) -> None:
    """Otherwise it could be back for an hour before those that wait are tried."""
    for at in (100.0, 101.0, 102.0):
        append_event(path, at)
    for now in (103.0, 104.0, 105.0):
        outbox.record_failure(path, claim_due(path, now, now + 1), "refused", 5000.0)
    assert outbox.find_next_due(path, LANE, 200.0) is None
    append_event(path, 200.0)
    numbers = []
    while (delivery := outbox.find_next_due(path, LANE, 201.0)) is not None:
        numbers.append(delivery.seq)
        assert outbox.claim_delivery(path, delivery, 201.0, 9999.0)
        outbox.record_delivered(path, delivery, 201.0, {})
    assert numbers == [4, 1, 2, 3]


def test_each_address_has_its_own_lane(path: str) -> None:
    with db.transaction(path) as connection:
        for number in range(2):
            connection.execute(
                "insert into outbox (id, kind, target, url, seq, created_at, due_at)"
                " values (?, 'webhook', 'fuse', ?, 1, 10, 10)",
                (f"d{number}", f"http://h/{number}"),
            )
    lanes = [one.lane for one in outbox.list_lanes(path, 10.0)]
    assert lanes == [Lane("webhook", "fuse", "http://h/0"), Lane("webhook", "fuse", "http://h/1")]
    assert find_due(path, 10.0, lanes[1]).id == "d1"


def test_the_journal_keeps_events_that_are_to_be_delivered(path: str) -> None:
    append_event(path, 100.0, "session.stopped")
    with db.transaction(path) as connection:
        assert journal.prune_events(connection, 1e9) == 0
    outbox.record_delivered(path, find_due(path, 101.0), 102.0, {})
    with db.transaction(path) as connection:
        assert journal.prune_events(connection, 1e9) == 2


@given(st.floats(0, 1e9), st.lists(st.floats(0, 1e9), min_size=1, max_size=5), st.floats(0, 3600))
@pytest.mark.slow
def test_no_step_of_the_clock_delays_a_delivery(
    tmp_path_factory: pytest.TempPathFactory, created_at: float, nows: list[float], pause: float
) -> None:
    """Whatever the clock is set to, it is due at once, or within its pause."""
    path = str(tmp_path_factory.mktemp("clock") / "state.db")
    with db.transaction(path) as connection:
        connection.execute(
            "insert into target values ('webhook', 'ci', ?, null, null, null)", (json.dumps(["*"]),)
        )
    append_event(path, created_at)
    assert outbox.find_next_due(path, LANE, nows[0]) is not None
    for now in nows:
        delivery = outbox.find_next_due(path, LANE, now)
        if delivery is None:
            [one] = outbox.list_lanes(path, now)
            assert now < one.due_at <= now + pause
            continue
        assert outbox.list_lanes(path, now)[0].due_at == 0
        assert outbox.claim_delivery(path, delivery, now, now + pause)


def load_settings(tmp_path: Path, text: str, **environ: str) -> Config:
    (tmp_path / "config.toml").write_text(text)
    return config.load({"AGENTCTL_HOME": str(tmp_path), **environ})


def sync(empty: str, settings: Config, *, daemon: bool = False) -> bool:
    return outbox.sync_targets(empty, settings.webhooks, settings.notify, daemon=daemon)


def read_targets(empty: str) -> list[tuple[object, ...]]:
    with db.transaction(empty) as connection:
        return connection.execute("select * from target order by kind, name").fetchall()


ALL = """
[webhooks.ci]
url = "https://me:hush@example.org/?hush"
secret = "hush"
groups = ["g"]
[notify.me]
desktop = true
on = ["waiting", "failed"]
[notify.done]
command = "echo hush"
on = ["finished"]
"""


def test_targets_are_stored_without_secrets(empty: str, tmp_path: Path) -> None:
    settings = load_settings(tmp_path, ALL)
    assert sync(empty, settings)
    default = json.dumps(["session.waiting", "session.stopped", "fuse.fired"])
    assert read_targets(empty) == [
        ("notify", "done", '["session.stopped"]', None, None, '["completed", "interrupted", "unknown"]'),
        ("notify", "me", '["session.waiting", "session.stopped"]', None, None, '["failed", "killed"]'),
        ("webhook", "ci", default, None, '["g"]', None),
    ]
    assert outbox.list_targets(empty) == {("webhook", "ci"), ("notify", "me"), ("notify", "done")}
    assert b"hush" not in Path(empty).read_bytes()


def test_unchanged_targets_are_not_written_again(empty: str, tmp_path: Path) -> None:
    sync(empty, load_settings(tmp_path, ALL))
    assert not sync(empty, load_settings(tmp_path, ALL))
    assert sync(empty, load_settings(tmp_path, ALL.replace('"g"', '"h"')))
    assert read_targets(empty)[2][4] == '["h"]'
    assert sync(empty, load_settings(tmp_path, ""))
    assert read_targets(empty) == []


def test_only_the_daemon_removes_the_target_of_the_environment(empty: str, tmp_path: Path) -> None:
    ours = load_settings(tmp_path, "", AGENTCTL_WEBHOOK_URL="https://example.org")
    assert sync(empty, ours)
    assert not sync(empty, load_settings(tmp_path, ""))  # a shell without the variable
    assert outbox.list_targets(empty) == {("webhook", "environment")}
    assert sync(empty, load_settings(tmp_path, ""), daemon=True)
    assert outbox.list_targets(empty) == set()


def test_events_for_targets_are_put_in_the_outbox(empty: str, tmp_path: Path) -> None:
    sync(empty, load_settings(tmp_path, ALL))
    body = {"session": {"outcome": "completed"}}
    journal.append_events(empty, [Event("session.stopped", 1.0, group="g", body=body)])
    journal.append_events(empty, [Event("session.waiting", 2.0), Event("user.x", 3.0)])
    with db.transaction(empty) as connection:
        deliveries = connection.execute(
            "select seq, kind, target from outbox order by seq, kind"
        ).fetchall()
    assert deliveries == [(1, "notify", "done"), (1, "webhook", "ci"), (2, "notify", "me")]


def result_event(kind: str, target: str, seen_at: float) -> Event:
    return Event(kind, seen_at, None, "pi", "s1", None, {"data": {"target": target, "why": "x"}})


def test_the_last_result_of_each_target(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    journal.append_events(
        path,
        [
            result_event("notify.failed", "desk", 3.0),
            result_event("notify.delivered", "desk", 2.0),
            result_event("notify.quiet", "phone", 4.0),
            result_event("webhook.dead", "ops", 5.0),
        ],
    )
    results = outbox.read_last_results(path)
    assert {name: (e.type, e.seen_at, e.seq) for name, e in results.items()} == {
        "desk": ("notify.delivered", 2.0, 2),
        "phone": ("notify.quiet", 4.0, 3),
    }
    assert results["phone"].body["data"]["why"] == "x"


def test_pending_deliveries_are_counted(tmp_path: Path) -> None:
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
    assert outbox.count_pending(path) == {"desk": 2}


def test_without_a_database_there_are_no_results(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    assert (outbox.read_last_results(path), outbox.count_pending(path)) == ({}, {})
    assert not Path(path).exists()


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_text("not a database at all, however long it is\n" * 99)
    with pytest.raises(Malformed):
        outbox.read_last_results(str(path))


@pytest.fixture
def desk(tmp_path: Path) -> str:
    file = str(tmp_path / "state.db")
    with db.transaction(file) as connection:
        connection.execute(
            "insert into target (kind, name, events) values ('notify', 'desk', ?)",
            (json.dumps(["session.waiting"]),),
        )
    return file


def add_event(
    desk: str, kind: str, at: float | None = 1.0, subject: str = "s1", what: str = "question"
) -> Event:
    event = Event(kind, 5.0, at, "pi", subject, None, {"session": {"waiting_for": what}})
    return event._replace(seq=journal.append_events(desk, [event])[0])


def mark_delivered(desk: str, event: Event) -> None:
    with db.transaction(desk) as connection:
        connection.execute("update outbox set phase = 'delivered' where seq = ?", (event.seq,))


def test_the_latest_type_after_an_event(desk: str) -> None:
    event = add_event(desk, "session.waiting")
    assert outbox.find_later_type(desk, event) is None
    add_event(desk, "session.running", subject="another")
    add_event(desk, "session.unknown")
    add_event(desk, "session.identified")
    assert outbox.find_later_type(desk, event) is None
    add_event(desk, "session.running")
    add_event(desk, "session.waiting")
    assert outbox.find_later_type(desk, event) == "session.waiting"
    add_event(desk, "session.stopped")
    assert outbox.find_later_type(desk, event) == "session.stopped"


def test_the_same_wait_is_notified_once(desk: str) -> None:
    first = add_event(desk, "session.waiting")
    mark_delivered(desk, first)
    assert not outbox.has_notified(desk, "desk", first)
    add_event(desk, "session.unknown")
    again = add_event(desk, "session.waiting")
    assert outbox.has_notified(desk, "desk", again)
    assert not outbox.has_notified(desk, "another", again)


def test_a_wait_without_a_beginning_is_the_same(desk: str) -> None:
    mark_delivered(desk, add_event(desk, "session.waiting"))
    assert outbox.has_notified(desk, "desk", add_event(desk, "session.waiting", at=None))


@pytest.mark.parametrize(
    ("between", "at", "what"),
    [
        ("session.running", 1.0, "question"),
        ("session.idle", 1.0, "question"),
        (None, 2.0, "question"),  # what it did in between was too short to be seen
        (None, 1.0, "permission"),
    ],
)
def test_another_wait_is_notified(desk: str, between: str | None, at: float, what: str) -> None:
    mark_delivered(desk, add_event(desk, "session.waiting"))
    if between is not None:
        add_event(desk, between)
    assert not outbox.has_notified(desk, "desk", add_event(desk, "session.waiting", at=at, what=what))


def test_a_wait_that_was_not_delivered_is_notified(desk: str) -> None:
    add_event(desk, "session.waiting")
    assert not outbox.has_notified(desk, "desk", add_event(desk, "session.waiting"))


def test_the_wait_of_another_session_is_notified(desk: str) -> None:
    mark_delivered(desk, add_event(desk, "session.waiting"))
    assert not outbox.has_notified(desk, "desk", add_event(desk, "session.waiting", subject="s2"))
