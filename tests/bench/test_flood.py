"""Of many changes at once, each is told or lies within a gap that is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench import flood

SESSION, OTHER = "s1", "s2"


def at(ms: int) -> str:
    return f"2026-11-15T00:00:00.{ms:03d}Z"


BASE = flood._ms(at(0))


def gap(session: str | None, began: int, ended: int) -> dict[str, Any]:
    return {
        "type": "events.gap",
        "subject": session,
        "at": at(began),
        "data": {"from": at(began), "to": at(ended)},
    }


def test_what_is_neither_told_nor_in_a_gap_is_missed() -> None:
    book: list[tuple[str, int]] = [("busy", BASE + 10), ("idle", BASE + 50), ("waiting", BASE + 100)]
    heard: list[dict[str, Any]] = [
        {"type": "session.running", "subject": SESSION, "at": at(10)},
        {"type": "session.running", "subject": SESSION, "at": at(11)},
        gap(SESSION, 90, 110),
        gap(OTHER, 0, 60),
    ]
    found = flood.reconcile({SESSION: book}, heard)
    assert (found.changes, found.told, found.gaps, found.within) == (3, 1, 2, 1)
    assert found.missed == [str((SESSION, "session.idle", BASE + 50))]
    assert found.invented == [str((SESSION, "session.running", BASE + 11))]
    assert flood.reconcile({SESSION: book}, [*heard, gap(None, 0, 60)]).missed == []


def test_two_hundred_changes_a_second_are_told_to_the_last(tmp_path: Path) -> None:
    found = flood.measure(tmp_path, agents=4, rate=50, seconds=2)
    assert found.changes == 400
    assert found.missed == []
    assert found.invented == []
    assert found.told + found.within == found.changes
