"""What was told stays told, in order, once; what follows from it is there with it."""

import json
import sqlite3
from pathlib import Path

import pytest

from agentctl.errors import Malformed
from agentctl.state import db, journal
from agentctl.state.journal import Event


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def told(kind: str, subject: str = "s1", at: float = 10.0, **body: object) -> Event:
    return Event(kind, at, at, "demo", subject, None, body)


def target(connection: sqlite3.Connection, name: str, *events: str, **only: list[str]) -> None:
    rest = [json.dumps(only[key]) if key in only else None for key in ("adapters", "groups", "outcomes")]
    connection.execute(
        "insert into target values ('webhook', ?, ?, ?, ?, ?)", (name, json.dumps(events), *rest)
    )


def wanted(path: str) -> list[tuple[str, int]]:
    with db.transaction(path) as connection:
        return connection.execute("select target, seq from outbox order by seq, target").fetchall()


def test_what_is_recorded_is_read_in_order(path: str) -> None:
    assert journal.record(path, [told("session.running"), told("session.idle")]) == [1, 2]
    found = journal.after(path, 0)
    assert [(e.seq, e.type, e.subject) for e in found] == [
        (1, "session.running", "s1"),
        (2, "session.idle", "s1"),
    ]
    assert journal.after(path, 1) == found[1:]
    assert journal.after(path, 0, 1) == found[:1]
    assert (journal.first(path), journal.last(path)) == (1, 2)


def test_without_a_journal_nothing_was_told(path: str) -> None:
    assert journal.after(path, 0) == []
    assert journal.last(path) == 0
    assert not Path(path).exists()


def test_a_number_is_never_told_twice(path: str) -> None:
    journal.record(path, [told("session.stopped")])
    with db.transaction(path) as connection:
        assert journal.prune(connection, 100.0) == 1
    assert journal.last(path) == 1
    assert journal.record(path, [told("session.running")]) == [2]


def test_who_reads_on_reads_each_once(path: str) -> None:
    reader = journal.Reader(path, 0)
    assert reader.new() == []
    for number in range(1, 4):
        journal.record(path, [told("session.running")])
        assert [event.seq for event in reader.new()] == [number]
        assert not reader.anew
    reader.close()


def test_one_that_is_deleted_and_made_anew_is_read_from_its_beginning(path: str) -> None:
    journal.record(path, [told("session.running"), told("session.idle")])
    reader = journal.Reader(path, 0)
    assert len(reader.new()) == 2
    for file in (path, f"{path}-shm", f"{path}-wal"):
        Path(file).unlink()
    assert (reader.new(), reader.anew) == ([], False)
    journal.record(path, [told("session.stopped")])
    assert ([e.type for e in reader.new()], reader.anew) == (["session.stopped"], True)
    assert (reader.new(), reader.anew) == ([], False)
    reader.close()


def test_a_number_that_was_never_given_out_is_of_another_one(path: str) -> None:
    journal.record(path, [told("session.running")])
    reader = journal.Reader(path, 2)
    assert ([e.seq for e in reader.new()], reader.anew) == ([1], True)
    reader.close()


def test_an_event_that_fails_leaves_none_of_its_batch(path: str) -> None:
    with pytest.raises(Malformed):
        journal.record(path, [told("session.running"), told(None)])  # type: ignore[arg-type]
    assert journal.after(path, 0) == []


def test_the_last_word_on_each_session(path: str) -> None:
    journal.record(
        path,
        [
            told("session.running"),
            told("session.idle", "s2"),
            told("session.stopped"),
            told("lock.acquired", "s2"),
        ],
    )
    assert [(e.subject, e.type) for e in journal.last_told(path)] == [
        ("s2", "session.idle"),
        ("s1", "session.stopped"),
    ]


def test_those_of_a_session_by_any_prefix_of_its_id(path: str) -> None:
    journal.record(path, [told("session.idle", "abc"), told("session.idle", "a*c"), told("x", "b")])
    assert [e.subject for e in journal.of(path, "ab")] == ["abc"]
    assert [e.subject for e in journal.of(path, "a")] == ["abc", "a*c"]
    assert [e.subject for e in journal.of(path, "a*")] == ["a*c"]


def test_a_moment_becomes_a_number(path: str) -> None:
    journal.record(path, [told("a.b", at=10.0), told("a.b", at=20.0)])
    assert [journal.before(path, moment) for moment in (5.0, 15.0, 20.0, 25.0)] == [0, 1, 1, 2]


def test_pruning_keeps_the_last_word_on_who_lives_and_what_is_to_be_delivered(path: str) -> None:
    with db.transaction(path) as connection:
        target(connection, "ops", "lock.*")
        for event in (
            told("session.running"),
            told("session.idle"),
            told("session.idle", "s2"),
            told("session.stopped", "s2"),
            told("lock.acquired", "/x"),
            told("hook.failed", at=50.0),
        ):
            journal.append(connection, event)
        assert journal.prune(connection, 40.0) == 3
    assert [(e.type, e.subject) for e in journal.after(path, 0)] == [
        ("session.idle", "s1"),
        ("lock.acquired", "/x"),
        ("hook.failed", "s1"),
    ]


def test_who_wants_an_event_gets_it_in_the_same_transaction(path: str) -> None:
    with db.transaction(path) as connection:
        target(connection, "all", "*")
        target(connection, "pi", "session.*", adapters=["pi"])
        target(connection, "team", "session.*", groups=["team"])
        target(connection, "failures", "session.stopped", outcomes=["failed"])
    journal.record(
        path,
        [
            told("session.idle"),
            Event("session.idle", 1.0, adapter="pi", group="team"),
            told("session.stopped", session={"outcome": "completed"}),
            told("session.stopped", session={"outcome": "failed"}),
            told("webhook.delivered"),
        ],
    )
    assert wanted(path) == [
        ("all", 1),
        ("all", 2),
        ("pi", 2),
        ("team", 2),
        ("all", 3),
        ("all", 4),
        ("failures", 4),
    ]


def test_no_delivery_is_left_of_an_event_that_was_not_told(path: str) -> None:
    with db.transaction(path) as connection:
        target(connection, "all", "*")

    def begun_and_broken() -> None:
        with db.transaction(path) as connection:
            journal.append(connection, told("session.idle"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        begun_and_broken()
    assert wanted(path) == []


def test_a_path_that_is_no_text_can_be_told_of(path: str) -> None:
    journal.record(path, [told("lock.acquired", "/tmp/\udcff")])
    assert [e.subject for e in journal.after(path, 0)] == ["/tmp/\\udcff"]


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
    journal.record(path, [Event("session.idle", 1.0, None, "pi", "s1", None, body)])
    (told,) = journal.after(path, 0)
    assert told.body == {"session": {"id": "s1", "tokens": {"input": None}}, "data": {"also": [None, 1]}}


def test_values_within_values_without_end_are_left_out(path: str) -> None:
    body: dict[str, object] = {"type": "x"}
    body["self"] = body
    journal.record(path, [Event("session.idle", 1.0, None, "pi", "s1", None, body)])
    assert journal.after(path, 0)[0].body["type"] == "x"


def test_words_that_are_no_text_are_told_as_their_codes(path: str) -> None:
    journal.record(path, [Event("session.idle", 1.0, None, "p\ud800i", "s\udce9", "g\ud800")])
    (told,) = journal.after(path, 0)
    assert (told.adapter, told.subject, told.group) == ("p\\ud800i", "s\\udce9", "g\\ud800")


def test_a_body_that_is_damaged_costs_no_other_event(path: str) -> None:
    journal.record(path, [Event("a.b", 1.0), Event("a.c", 2.0, body={"data": {"k": 1}})])
    with db.transaction(path) as connection:
        connection.execute("update event set body = '{' where type = 'a.b'")
    assert [event.body for event in journal.after(path, 0)] == [
        {"data": {"problem": "damaged in the journal"}},
        {"data": {"k": 1}},
    ]


def fill(path: str, number: int, kind: str = "session.idle") -> None:
    journal.record(path, [told(kind, f"s{n}", float(n), data={"k": "x" * 2000}) for n in range(number)])


def used(path: str) -> int:
    with db.transaction(path) as connection:
        return db.extent(connection).used


def test_it_is_kept_to_its_size_by_forgetting_the_oldest(path: str) -> None:
    fill(path, 500, "session.stopped")
    before, most = used(path), 400_000
    assert before > 2 * most
    with db.transaction(path) as connection:
        gone = journal.shrink(connection, most)
    left = [event.seq for event in journal.after(path, 0)]
    assert left == list(range(gone + 1, 501)), "the oldest, and no other"
    assert 0.7 * most < used(path) <= 0.9 * most
    with db.transaction(path) as connection:
        assert journal.shrink(connection, most) == 0
    assert journal.last(path) == 500


def test_what_is_needed_outlasts_its_size(path: str) -> None:
    """The last word on who has not stopped, and what is to be delivered."""
    journal.record(path, [told("session.waiting", "alive", 1.0)])
    with db.transaction(path) as connection:
        connection.execute("insert into target values ('webhook', 'w', '[\"a.b\"]', null, null, null)")
    journal.record(path, [told("a.b", "pending", 2.0), told("a.b", "delivered", 2.0)])
    with db.transaction(path) as connection:
        connection.execute("update outbox set phase = 'delivered' where seq = 3")
    fill(path, 300, "session.stopped")
    with db.transaction(path) as connection:
        assert journal.shrink(connection, 1) == 301
    assert [event.subject for event in journal.after(path, 0)] == ["alive", "pending"]


def test_one_that_is_small_enough_stays_whole(path: str) -> None:
    fill(path, 10)
    with db.transaction(path) as connection:
        assert journal.shrink(connection, 1 << 20) == 0


def test_a_body_is_written_smaller_and_read_whole(path: str) -> None:
    piece = {
        "claim": "alive", "detail": None, "authority": "kernel", "at": None, "address": "proc:1@1",
        "note": None, "trusted": True, "decided": True,
    }  # fmt: skip
    body = {"session": {"id": "s1", "evidence": [piece]}, "evidence": [piece], "data": {}}
    journal.record(path, [Event("session.idle", 1.0, None, "pi", "s1", None, body)])
    assert journal.after(path, 0)[0].body == body
    plain = sqlite3.connect(path)
    assert plain.execute("select body from event").fetchone()[0].count("alive") == 1
    plain.close()
