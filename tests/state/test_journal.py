"""Events stay recorded, in order, once; the deliveries of an event are recorded with it."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import Malformed
from agentctl.state import db, journal
from agentctl.state.journal import Event
from agentctl.truth.survey import HistoryQuery
from agentctl.wire import event
from agentctl.wire import session as shapes
from tests.fakes.demo import DemoStage


def make_event(kind: str, subject: str = "s1", at: float = 10.0, **body: object) -> Event:
    return Event(kind, at, at, "demo", subject, None, body)


def insert_target(connection: sqlite3.Connection, name: str, *events: str, **only: list[str]) -> None:
    rest = [json.dumps(only[key]) if key in only else None for key in ("adapters", "groups", "outcomes")]
    connection.execute(
        "insert into target values ('webhook', ?, ?, ?, ?, ?)", (name, json.dumps(events), *rest)
    )


def read_outbox(path: str) -> list[tuple[str, int]]:
    with db.transaction(path) as connection:
        return connection.execute("select target, seq from outbox order by seq, target").fetchall()


def test_what_is_recorded_is_read_in_order(path: str) -> None:
    assert journal.append_events(path, [make_event("session.running"), make_event("session.idle")]) == [
        1,
        2,
    ]
    events = journal.read_after(path, 0)
    assert [(e.seq, e.type, e.subject) for e in events] == [
        (1, "session.running", "s1"),
        (2, "session.idle", "s1"),
    ]
    assert journal.read_after(path, 1) == events[1:]
    assert journal.read_after(path, 0, 1) == events[:1]
    assert (journal.read_first_seq(path), journal.read_last_seq(path)) == (1, 2)


def test_without_a_journal_there_are_no_events(path: str) -> None:
    assert journal.read_after(path, 0) == []
    assert journal.read_last_seq(path) == 0
    assert not Path(path).exists()


def test_a_number_is_never_used_twice(path: str) -> None:
    journal.append_events(path, [make_event("session.stopped")])
    with db.transaction(path) as connection:
        assert journal.prune_events(connection, 100.0) == 1
    assert journal.read_last_seq(path) == 1
    assert journal.append_events(path, [make_event("session.running")]) == [2]


def test_a_reader_reads_each_event_once(path: str) -> None:
    reader = journal.Reader(path, 0)
    assert reader.read_new() == []
    for number in range(1, 4):
        journal.append_events(path, [make_event("session.running")])
        assert [event.seq for event in reader.read_new()] == [number]
        assert not reader.is_new_journal
    reader.close()


def test_a_new_journal_is_read_from_its_beginning(path: str) -> None:
    journal.append_events(path, [make_event("session.running"), make_event("session.idle")])
    reader = journal.Reader(path, 0)
    assert len(reader.read_new()) == 2
    for file in (path, f"{path}-shm", f"{path}-wal"):
        Path(file).unlink()
    assert (reader.read_new(), reader.is_new_journal) == ([], False)
    journal.append_events(path, [make_event("session.stopped")])
    assert ([e.type for e in reader.read_new()], reader.is_new_journal) == (["session.stopped"], True)
    assert (reader.read_new(), reader.is_new_journal) == ([], False)
    reader.close()


def test_an_unused_number_is_of_another_journal(path: str) -> None:
    journal.append_events(path, [make_event("session.running")])
    reader = journal.Reader(path, 2)
    assert ([e.seq for e in reader.read_new()], reader.is_new_journal) == ([1], True)
    reader.close()


def test_a_batch_with_a_bad_event_is_not_recorded(path: str) -> None:
    with pytest.raises(Malformed):
        journal.append_events(path, [make_event("session.running"), make_event(None)])  # type: ignore[arg-type]
    assert journal.read_after(path, 0) == []


def test_the_last_event_of_each_session(path: str) -> None:
    journal.append_events(
        path,
        [
            make_event("session.running"),
            make_event("session.idle", "s2"),
            make_event("session.stopped"),
            make_event("lock.acquired", "s2"),
        ],
    )
    assert [(e.subject, e.type) for e in journal.read_last_events(path)] == [
        ("s2", "session.idle"),
        ("s1", "session.stopped"),
    ]


def test_events_of_a_session_by_a_prefix_of_its_id(path: str) -> None:
    journal.append_events(
        path,
        [make_event("session.idle", "abc"), make_event("session.idle", "a*c"), make_event("x", "b")],
    )
    assert [e.subject for e in journal.read_about(path, "ab")] == ["abc"]
    assert [e.subject for e in journal.read_about(path, "a")] == ["abc", "a*c"]
    assert [e.subject for e in journal.read_about(path, "a*")] == ["a*c"]


def test_a_moment_becomes_a_number(path: str) -> None:
    journal.append_events(path, [make_event("a.b", at=10.0), make_event("a.b", at=20.0)])
    assert [journal.find_seq_before(path, moment) for moment in (5.0, 15.0, 20.0, 25.0)] == [0, 1, 1, 2]


def test_pruning_keeps_last_events_of_live_sessions_and_pending_deliveries(path: str) -> None:
    with db.transaction(path) as connection:
        insert_target(connection, "ops", "lock.*")
        for event in (
            make_event("session.running"),
            make_event("session.idle"),
            make_event("session.idle", "s2"),
            make_event("session.stopped", "s2"),
            make_event("lock.acquired", "/x"),
            make_event("hook.failed", at=50.0),
        ):
            journal.append_event(connection, event)
        assert journal.prune_events(connection, 40.0) == 3
    assert [(e.type, e.subject) for e in journal.read_after(path, 0)] == [
        ("session.idle", "s1"),
        ("lock.acquired", "/x"),
        ("hook.failed", "s1"),
    ]


def test_deliveries_are_recorded_for_the_targets_of_an_event(path: str) -> None:
    with db.transaction(path) as connection:
        insert_target(connection, "all", "*")
        insert_target(connection, "pi", "session.*", adapters=["pi"])
        insert_target(connection, "team", "session.*", groups=["team"])
        insert_target(connection, "failures", "session.stopped", outcomes=["failed"])
    journal.append_events(
        path,
        [
            make_event("session.idle"),
            Event("session.idle", 1.0, adapter="pi", group="team"),
            make_event("session.stopped", session={"outcome": "completed"}),
            make_event("session.stopped", session={"outcome": "failed"}),
            make_event("webhook.delivered"),
        ],
    )
    assert read_outbox(path) == [
        ("all", 1),
        ("all", 2),
        ("pi", 2),
        ("team", 2),
        ("all", 3),
        ("all", 4),
        ("failures", 4),
    ]


def test_no_delivery_of_an_event_that_was_rolled_back(path: str) -> None:
    with db.transaction(path) as connection:
        insert_target(connection, "all", "*")

    def fail_after_append() -> None:
        with db.transaction(path) as connection:
            journal.append_event(connection, make_event("session.idle"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_after_append()
    assert read_outbox(path) == []


def test_a_path_that_is_no_text_can_be_recorded(path: str) -> None:
    journal.append_events(path, [make_event("lock.acquired", "/tmp/\udcff")])
    assert [e.subject for e in journal.read_after(path, 0)] == ["/tmp/\\udcff"]


ABSURD = {
    "digits": 10**5000,
    "endless": float("inf"),
    "nan": float("nan"),
    "set": {1},
    "object": object(),
    "bytes": b"x",
}


@pytest.mark.parametrize("value", ABSURD.values(), ids=ABSURD)
def test_a_value_that_json_cannot_hold_is_left_out(path: str, value: object) -> None:
    body = {"session": {"id": "s1", "tokens": {"input": value}}, "data": {"also": [value, 1]}}
    journal.append_events(path, [Event("session.idle", 1.0, None, "pi", "s1", None, body)])
    (row,) = journal.read_after(path, 0)
    assert row.body == {"session": {"id": "s1", "tokens": {"input": None}}, "data": {"also": [None, 1]}}


def test_a_body_that_contains_itself_is_cut(path: str) -> None:
    body: dict[str, object] = {"type": "x"}
    body["self"] = body
    journal.append_events(path, [Event("session.idle", 1.0, None, "pi", "s1", None, body)])
    assert journal.read_after(path, 0)[0].body["type"] == "x"


def test_words_that_are_no_text_are_recorded_as_their_codes(path: str) -> None:
    journal.append_events(path, [Event("session.idle", 1.0, None, "p\ud800i", "s\udce9", "g\ud800")])
    (row,) = journal.read_after(path, 0)
    assert (row.adapter, row.subject, row.group) == ("p\\ud800i", "s\\udce9", "g\\ud800")


def test_a_damaged_body_hides_no_other_event(path: str) -> None:
    journal.append_events(path, [Event("a.b", 1.0), Event("a.c", 2.0, body={"data": {"k": 1}})])
    with db.transaction(path) as connection:
        connection.execute("update event set body = '{' where type = 'a.b'")
    assert [event.body for event in journal.read_after(path, 0)] == [
        {"data": {"problem": "damaged in the journal"}},
        {"data": {"k": 1}},
    ]


def fill(path: str, number: int, kind: str = "session.idle") -> None:
    journal.append_events(
        path, [make_event(kind, f"s{n}", float(n), data={"k": "x" * 2000}) for n in range(number)]
    )


def measure_used(path: str) -> int:
    with db.transaction(path) as connection:
        return db.measure_file(connection).used


def test_a_large_journal_forgets_its_oldest_events(path: str) -> None:
    fill(path, 500, "session.stopped")
    before, most = measure_used(path), 400_000
    assert before > 2 * most
    with db.transaction(path) as connection:
        count = journal.shrink_events(connection, most)
    numbers = [event.seq for event in journal.read_after(path, 0)]
    assert numbers == list(range(count + 1, 501)), "the oldest, and no other"
    assert 0.7 * most < measure_used(path) <= 0.9 * most
    with db.transaction(path) as connection:
        assert journal.shrink_events(connection, most) == 0
    assert journal.read_last_seq(path) == 500


def test_a_large_journal_keeps_the_events_that_are_needed(path: str) -> None:
    """The last event of a session that has not stopped, and those to be delivered."""
    journal.append_events(path, [make_event("session.waiting", "alive", 1.0)])
    with db.transaction(path) as connection:
        connection.execute("insert into target values ('webhook', 'w', '[\"a.b\"]', null, null, null)")
    journal.append_events(path, [make_event("a.b", "pending", 2.0), make_event("a.b", "delivered", 2.0)])
    with db.transaction(path) as connection:
        connection.execute("update outbox set phase = 'delivered' where seq = 3")
    fill(path, 300, "session.stopped")
    with db.transaction(path) as connection:
        assert journal.shrink_events(connection, 1) == 301
    assert [event.subject for event in journal.read_after(path, 0)] == ["alive", "pending"]


def test_a_small_journal_stays_whole(path: str) -> None:
    fill(path, 10)
    with db.transaction(path) as connection:
        assert journal.shrink_events(connection, 1 << 20) == 0


def test_a_body_is_stored_smaller_and_read_whole(path: str) -> None:
    piece = {
        "claim": "alive", "detail": None, "authority": "kernel", "at": None, "address": "proc:1@1",
        "note": None, "trusted": True, "decided": True,
    }  # fmt: skip
    body = {"session": {"id": "s1", "evidence": [piece]}, "evidence": [piece], "data": {}}
    journal.append_events(path, [Event("session.idle", 1.0, None, "pi", "s1", None, body)])
    assert journal.read_after(path, 0)[0].body == body
    plain = sqlite3.connect(path)
    assert plain.execute("select body from event").fetchone()[0].count("alive") == 1
    plain.close()


TEXT = st.text(max_size=5) | st.none()
PIECES = st.fixed_dictionaries(
    {
        "claim": TEXT, "detail": TEXT, "authority": TEXT, "at": TEXT, "address": TEXT, "note": TEXT,
        "trusted": st.booleans(), "decided": st.booleans(),
    }
)  # fmt: skip
BODIES = st.fixed_dictionaries(
    {
        "session": st.fixed_dictionaries({"id": TEXT, "evidence": st.lists(PIECES, max_size=3)}),
        "evidence": st.lists(PIECES, max_size=3),
        "data": st.just({"k": 1}),
    }
)


def pack_and_unpack(body: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = journal.unpack_body(json.loads(json.dumps(journal.pack_body(body))))
    return result


@given(BODIES)
def test_any_body_is_unpacked_whole(body: dict[str, Any]) -> None:
    assert pack_and_unpack(body) == body


@given(BODIES)
def test_a_body_with_the_evidence_of_its_session_is_unpacked_whole(body: dict[str, Any]) -> None:
    body["evidence"] = [piece for piece in body["session"]["evidence"] if piece["decided"]]
    assert pack_and_unpack(body) == body
    assert "evidence" not in journal.pack_body(body)["session"]


@given(
    st.dictionaries(
        st.sampled_from(["session", "evidence", "data"]), st.none() | st.integers() | st.just([])
    )
)
def test_a_body_of_another_form_is_unchanged(body: dict[str, Any]) -> None:
    assert pack_and_unpack(dict(body)) == body


def test_packed_evidence_has_the_public_fields(tmp_path: Path) -> None:
    """With another field nothing would be packed any more, and no error would show it."""
    stage = DemoStage(tmp_path)
    try:
        puppet = stage.start()
        puppet.do("work")
        (session,) = stage.survey(HistoryQuery()).sessions
        body = event.make_session_body(session, more=1)
        assert pack_and_unpack(body) == json.loads(json.dumps(body))
        assert list(pack_and_unpack(body)["evidence"][0]) == [
            name for name, _, _ in shapes.EVIDENCE_FIELDS
        ]
        assert len(json.dumps(journal.pack_body(body))) < 0.7 * len(json.dumps(body))
    finally:
        stage.close()
