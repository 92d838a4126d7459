"""Of many changes at once, each is reported or lies within a reported gap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench import flood

SESSION, OTHER = "s1", "s2"


def format_at(ms: int) -> str:
    return f"2026-11-15T00:00:00.{ms:03d}Z"


BASE = flood._milliseconds(format_at(0))


def make_gap(session: str | None, start: int, end: int) -> dict[str, Any]:
    return {
        "type": "events.gap",
        "subject": session,
        "at": format_at(start),
        "data": {"from": format_at(start), "to": format_at(end)},
    }


def test_a_change_neither_reported_nor_in_a_gap_is_missed() -> None:
    book: list[tuple[str, int]] = [("busy", BASE + 10), ("idle", BASE + 50), ("waiting", BASE + 100)]
    events: list[dict[str, Any]] = [
        {"type": "session.running", "subject": SESSION, "at": format_at(10)},
        {"type": "session.running", "subject": SESSION, "at": format_at(11)},
        make_gap(SESSION, 90, 110),
        make_gap(OTHER, 0, 60),
    ]
    result = flood.reconcile({SESSION: book}, events)
    assert (result.changes, result.reported, result.gaps, result.within) == (3, 1, 2, 1)
    assert result.missed == [str((SESSION, "session.idle", BASE + 50))]
    assert result.invented == [str((SESSION, "session.running", BASE + 11))]
    assert flood.reconcile({SESSION: book}, [*events, make_gap(None, 0, 60)]).missed == []


@pytest.mark.slow
def test_none_of_two_hundred_changes_a_second_is_missed(tmp_path: Path) -> None:
    result = flood.measure(tmp_path, agents=4, rate=50, seconds=2)
    assert result.changes == 400
    assert result.missed == []
    assert result.invented == []
    assert result.reported + result.within == result.changes
