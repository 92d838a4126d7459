"""The watcher of the tests: waits until agentctl says what the driver knows, passes no lie meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.real.book import Told, Who
from tests.real.lab import row_of
from tests.waiting import until

LIVING = {"running", "waiting", "idle"}
PATIENCE = 15.0  # seconds: a loaded machine is no failure; the benchmark measures, a test does not


class Asserting:
    rows: Callable[[], list[dict[str, Any]]]  # how agentctl is asked

    def __init__(self) -> None:
        self._dead: set[str] = set()

    def unsettled(self, who: Who, at: float) -> None:
        pass

    def ended(self, who: Who, at: float) -> None:
        self._dead.add(who.name)

    def told(self, who: Who, now: Told, since: float) -> None:
        if now.blind:  # it need not be known; told as dead or alive it must be, if at all
            dead = who.name in self._dead
            _no_lie(row_of(self.rows(), who), now, dead=dead)
            return
        last: list[dict[str, Any] | None] = [None]

        def agrees() -> bool:
            dead = who.name in self._dead  # as it was when the question was asked
            last[0] = row_of(self.rows(), who)
            _no_lie(last[0], now, dead=dead)
            return last[0] is not None and _matches(last[0], now)

        try:
            until(agrees, f"{who.name} is told as {now}", PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{error}; it is told as {_brief(last[0])}") from None


def _matches(row: dict[str, Any], now: Told) -> bool:
    return (
        row["status"] == now.status
        and now.waiting_for in (None, row["waiting_for"])
        and now.outcome in (None, row["outcome"])
    )


def _no_lie(row: dict[str, Any] | None, now: Told, *, dead: bool) -> None:
    if row is None:
        return
    if now.status != "stopped" and not dead:
        assert row["status"] != "stopped", f"stopped, while it lives: {_brief(row)}"
    if now.status == "stopped" and dead:
        assert row["status"] not in LIVING, f"alive, while it is dead: {_brief(row)}"


def _brief(row: dict[str, Any] | None) -> str:
    if row is None:
        return "nothing: it is not listed"
    told = " ".join(
        str(row[key]) for key in ("id", "pid", "status", "activity", "waiting_for", "outcome")
    )
    evidence = "\n".join(f"  {e['claim']} {e['address']} {e['note']}" for e in row["evidence"])
    return f"{told}: {row['reason']}\n{evidence}"
