"""Counters begin at 0, never decrease and count no event twice."""

from pathlib import Path
from typing import Any

import pytest

from agentctl.errors import Malformed
from agentctl.metrics import counters
from agentctl.metrics.counters import EventCounters
from agentctl.state import db, journal
from agentctl.state.journal import Event
from agentctl.system.clock import format_rfc3339
from tests.metrics.samples import Samples, read_samples


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def read_counts(counts: EventCounters) -> Samples:
    return read_samples(counts.families())


def start_counts(path: str) -> EventCounters:
    counts = EventCounters(path)
    counts.catch_up()
    return counts


def make_stop(subject: str = "s1", at: float = 1000.0, **session: Any) -> Event:
    return Event("session.stopped", at, at, "pi", subject, None, {"session": session})


def test_it_counts_from_now_on(path: str) -> None:
    journal.append_events(path, [Event("session.idle", 1.0)])
    counts = start_counts(path)
    assert read_counts(counts).keys() == read_counts(EventCounters(path)).keys()
    journal.append_events(path, [Event("session.idle", 2.0), Event("launch.started", 2.0, adapter="pi")])
    counts.catch_up()
    counts.catch_up()
    samples = read_counts(counts)
    assert samples["events_total", ("session.idle",)] == 1
    assert samples["launches_total", ("pi",)] == 1


def test_pruned_events_stay_counted(path: str) -> None:
    counts = start_counts(path)
    journal.append_events(path, [make_stop(outcome="failed")])
    counts.catch_up()
    with db.transaction(path) as connection:
        assert journal.prune_events(connection, 1e12) == 1
    counts.catch_up()
    assert read_counts(counts)["sessions_ended_total", ("pi", "failed")] == 1


def test_the_events_of_a_new_journal_are_counted(path: str) -> None:
    journal.append_events(path, [Event("a.b", 1.0)] * 3)
    counts = start_counts(path)
    for file in Path(path).parent.iterdir():
        file.unlink()
    journal.append_events(path, [Event("a.b", 2.0)])
    counts.catch_up()
    assert read_counts(counts)["events_total", ("a.b",)] == 1


def test_many_events_are_counted_in_several_steps(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "AT_ONCE", 500)
    counts = start_counts(path)
    journal.append_events(path, [Event("a.b", 1.0)] * 1200)
    counts.catch_up()
    assert read_counts(counts)["events_total", ("a.b",)] == 500
    counts.catch_up()
    counts.catch_up()
    assert read_counts(counts)["events_total", ("a.b",)] == 1200


def test_the_duration_of_a_session_is_counted(path: str) -> None:
    counts = EventCounters(path)
    counts.count(make_stop(at=1000.0, started_at=format_rfc3339(970.0)))
    counts.count(make_stop("s2", at=1000.0))  # its start is unknown
    samples = read_counts(counts)
    assert samples["session_duration_seconds_count", ("pi",)] == 1
    assert samples["session_duration_seconds_sum", ("pi",)] == 30
    assert samples["session_duration_seconds_bucket", ("pi", "10")] == 0
    assert samples["session_duration_seconds_bucket", ("pi", "60")] == 1
    assert samples["sessions_ended_total", ("pi", "unknown")] == 2


def test_only_the_increase_of_a_resumed_session_is_counted(path: str) -> None:
    counts = EventCounters(path)
    counts.count(make_stop(tokens={"input": 100, "output": None}, cost_usd=0.5))
    counts.count(make_stop("s2", tokens={"input": 7}))
    counts.count(make_stop(tokens={"input": 130, "output": 5}, cost_usd=0.75))
    samples = read_counts(counts)
    assert samples["ended_session_tokens_total", ("pi", "input")] == 137
    assert samples["ended_session_tokens_total", ("pi", "output")] == 5
    assert samples["ended_session_cost_usd_total", ("pi",)] == 0.75


def test_the_memory_of_stopped_sessions_is_bounded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "REMEMBERED", 2)
    counts = EventCounters(path)
    for number in range(9):
        counts.count(make_stop(f"s{number}", cost_usd=1.0))
    assert len(counts._before) == 2


def test_deliveries_by_target_and_result(path: str) -> None:
    counts = EventCounters(path)
    counts.count(Event("webhook.delivered", 1.0, body={"data": {"target": "ops"}}))
    counts.count(Event("notify.quiet", 1.0, body={"data": {"target": "desk"}}))
    samples = read_counts(counts)
    assert samples["deliveries_total", ("webhook", "ops", "delivered")] == 1
    assert samples["deliveries_total", ("notify", "desk", "quiet")] == 1


def test_user_events_are_one_series(path: str) -> None:
    counts = EventCounters(path)
    for number in range(9):
        counts.count(Event(f"user.run-{number}", 1.0))
    assert read_counts(counts)["events_total", ("user.*",)] == 9


def test_a_body_of_any_shape_is_counted(path: str) -> None:
    counts = EventCounters(path)
    for body in ({}, {"session": None}, {"session": {"tokens": 3, "started_at": 5, "cost_usd": "x"}}):
        counts.count(Event("session.stopped", 1.0, body=body))
    assert read_counts(counts)["events_total", ("session.stopped",)] == 3


def test_surveys_are_counted(path: str) -> None:
    counts = EventCounters(path)
    counts.observe_survey(0.03)
    assert read_counts(counts)["survey_duration_seconds_bucket", ("0.05",)] == 1


def test_an_unreadable_journal_is_counted_once_it_can_be_read(path: str) -> None:
    Path(path).write_text("not a database at all, however long it is\n" * 99)
    counts = EventCounters(path)
    with pytest.raises(Malformed):
        counts.catch_up()
    Path(path).unlink()
    journal.append_events(path, [Event("a.b", 1.0)])
    counts.catch_up()
    journal.append_events(path, [Event("a.b", 2.0)])
    counts.catch_up()
    assert read_counts(counts)["events_total", ("a.b",)] == 1


def test_an_absurd_number_is_not_counted(path: str) -> None:
    counts = start_counts(path)
    absurd = {"input": 10**400, "output": -1, "cache_read": 7, "cache_write": True}
    journal.append_events(path, [make_stop(tokens=absurd, cost_usd=10**30)])
    journal.append_events(path, [make_stop("s2", tokens={"input": 3})])
    counts.catch_up()
    samples = read_counts(counts)
    assert samples["ended_session_tokens_total", ("pi", "input")] == 3
    assert samples["ended_session_tokens_total", ("pi", "cache_read")] == 7
    assert ("ended_session_cost_usd_total", ("pi",)) not in samples


def test_an_event_that_cannot_be_counted_is_skipped_the_next_time(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = start_counts(path)
    journal.append_events(path, [make_stop("odd"), make_stop("s2")])
    count = EventCounters.count

    def fail_on_odd(self: EventCounters, event: Event) -> None:
        if event.subject == "odd":
            raise OverflowError
        count(self, event)

    monkeypatch.setattr(EventCounters, "count", fail_on_odd)
    with pytest.raises(OverflowError):
        counts.catch_up()
    counts.catch_up()
    assert read_counts(counts)["sessions_ended_total", ("pi", "unknown")] == 1
