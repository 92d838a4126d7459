"""Counters: from 0, never down, nothing twice."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentctl.errors import Malformed
from agentctl.metrics import counters, exposition
from agentctl.metrics.counters import Tally
from agentctl.state import db, journal
from agentctl.state.journal import Event
from agentctl.system.clock import rfc3339

Found = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def read(given: Tally) -> Found:
    """By name and the values of its labels."""
    return {
        (sample.name.removeprefix("agentctl_"), tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(exposition.text(given.families()))
        for sample in family.samples
    }


def begun(path: str) -> Tally:
    made = Tally(path)
    made.catch_up()
    return made


def stopped(subject: str = "s1", at: float = 1000.0, **session: Any) -> Event:
    return Event("session.stopped", at, at, "pi", subject, None, {"session": session})


def test_it_counts_from_now_on(path: str) -> None:
    journal.record(path, [Event("session.idle", 1.0)])
    made = begun(path)
    assert read(made).keys() == read(Tally(path)).keys()
    journal.record(path, [Event("session.idle", 2.0), Event("launch.started", 2.0, adapter="pi")])
    made.catch_up()
    made.catch_up()
    found = read(made)
    assert found["events_total", ("session.idle",)] == 1
    assert found["launches_total", ("pi",)] == 1


def test_what_is_pruned_stays_counted(path: str) -> None:
    made = begun(path)
    journal.record(path, [stopped(outcome="failed")])
    made.catch_up()
    with db.transaction(path) as connection:
        assert journal.prune(connection, 1e12) == 1
    made.catch_up()
    assert read(made)["sessions_ended_total", ("pi", "failed")] == 1


def test_a_journal_that_was_begun_anew_is_counted_too(path: str) -> None:
    journal.record(path, [Event("a.b", 1.0)] * 3)
    made = begun(path)
    for file in Path(path).parent.iterdir():
        file.unlink()
    journal.record(path, [Event("a.b", 2.0)])
    made.catch_up()
    assert read(made)["events_total", ("a.b",)] == 1


def test_much_is_counted_in_several_goes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "AT_ONCE", 500)
    made = begun(path)
    journal.record(path, [Event("a.b", 1.0)] * 1200)
    made.catch_up()
    assert read(made)["events_total", ("a.b",)] == 500
    made.catch_up()
    made.catch_up()
    assert read(made)["events_total", ("a.b",)] == 1200


def test_how_long_a_session_lasted(path: str) -> None:
    made = Tally(path)
    made.count(stopped(at=1000.0, started_at=rfc3339(970.0)))
    made.count(stopped("s2", at=1000.0))  # nobody wrote down when it began
    found = read(made)
    assert found["session_duration_seconds_count", ("pi",)] == 1
    assert found["session_duration_seconds_sum", ("pi",)] == 30
    assert found["session_duration_seconds_bucket", ("pi", "10")] == 0
    assert found["session_duration_seconds_bucket", ("pi", "60")] == 1
    assert found["sessions_ended_total", ("pi", "unknown")] == 2


def test_of_a_resumed_session_only_what_came_since_counts(path: str) -> None:
    made = Tally(path)
    made.count(stopped(tokens={"input": 100, "output": None}, cost_usd=0.5))
    made.count(stopped("s2", tokens={"input": 7}))
    made.count(stopped(tokens={"input": 130, "output": 5}, cost_usd=0.75))
    found = read(made)
    assert found["ended_session_tokens_total", ("pi", "input")] == 137
    assert found["ended_session_tokens_total", ("pi", "output")] == 5
    assert found["ended_session_cost_usd_total", ("pi",)] == 0.75


def test_what_is_remembered_of_ended_sessions_is_bounded(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "REMEMBERED", 2)
    made = Tally(path)
    for number in range(9):
        made.count(stopped(f"s{number}", cost_usd=1.0))
    assert len(made._before) == 2


def test_deliveries_by_target_and_result(path: str) -> None:
    made = Tally(path)
    made.count(Event("webhook.delivered", 1.0, body={"data": {"target": "ops"}}))
    made.count(Event("notify.quiet", 1.0, body={"data": {"target": "desk"}}))
    found = read(made)
    assert found["deliveries_total", ("webhook", "ops", "delivered")] == 1
    assert found["deliveries_total", ("notify", "desk", "quiet")] == 1


def test_events_that_people_name_are_one_series(path: str) -> None:
    made = Tally(path)
    for number in range(9):
        made.count(Event(f"user.run-{number}", 1.0))
    assert read(made)["events_total", ("user.*",)] == 9


def test_a_body_of_any_shape_is_counted(path: str) -> None:
    made = Tally(path)
    for body in ({}, {"session": None}, {"session": {"tokens": 3, "started_at": 5, "cost_usd": "x"}}):
        made.count(Event("session.stopped", 1.0, body=body))
    assert read(made)["events_total", ("session.stopped",)] == 3


def test_surveys(path: str) -> None:
    made = Tally(path)
    made.surveyed(0.03)
    assert read(made)["survey_duration_seconds_bucket", ("0.05",)] == 1


def test_a_journal_that_cannot_be_read_yet_is_counted_from_when_it_can(path: str) -> None:
    Path(path).write_text("not a database at all, however long it is\n" * 99)
    made = Tally(path)
    with pytest.raises(Malformed):
        made.catch_up()
    Path(path).unlink()
    journal.record(path, [Event("a.b", 1.0)])
    made.catch_up()
    journal.record(path, [Event("a.b", 2.0)])
    made.catch_up()
    assert read(made)["events_total", ("a.b",)] == 1


def test_a_number_that_is_no_count_is_not_counted(path: str) -> None:
    made = begun(path)
    absurd = {"input": 10**400, "output": -1, "cache_read": 7, "cache_write": True}
    journal.record(path, [stopped(tokens=absurd, cost_usd=10**30)])
    journal.record(path, [stopped("s2", tokens={"input": 3})])
    made.catch_up()
    found = read(made)
    assert found["ended_session_tokens_total", ("pi", "input")] == 3
    assert found["ended_session_tokens_total", ("pi", "cache_read")] == 7
    assert ("ended_session_cost_usd_total", ("pi",)) not in found


def test_an_event_that_cannot_be_counted_is_not_met_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = begun(path)
    journal.record(path, [stopped("odd"), stopped("s2")])
    count = Tally.count

    def fails_once(self: Tally, event: Event) -> None:
        if event.subject == "odd":
            raise OverflowError
        count(self, event)

    monkeypatch.setattr(Tally, "count", fails_once)
    with pytest.raises(OverflowError):
        made.catch_up()
    made.catch_up()
    assert read(made)["sessions_ended_total", ("pi", "unknown")] == 1
