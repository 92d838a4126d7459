"""The watcher of the tests: waits until agentctl says what the driver knows, and accepts no lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.real.book import State, Who
from tests.real.lab import row_of
from tests.waiting import until

LIVING = {"running", "waiting", "idle"}
PATIENCE = 15.0  # seconds: a loaded machine is no failure; the benchmark measures, a test does not


class Asserting:
    rows: Callable[[], list[dict[str, Any]]]  # asks agentctl

    def __init__(self) -> None:
        self._dead: set[str] = set()

    def unsettled(self, who: Who, at: float) -> None:
        pass

    def record_end(self, who: Who, at: float) -> None:
        self._dead.add(who.name)

    def declare(self, who: Who, now: State, since: float) -> None:
        if now.blind:  # agentctl need not know it, but must not get dead or alive wrong
            dead = who.name in self._dead
            _no_lie(row_of(self.rows(), who), now, dead=dead)
            return
        last: list[dict[str, Any] | None] = [None]

        def agrees() -> bool:
            dead = who.name in self._dead  # when the question is asked
            last[0] = row_of(self.rows(), who)
            _no_lie(last[0], now, dead=dead)
            return last[0] is not None and _matches(last[0], now)

        try:
            until(agrees, f"{who.name} is listed as {now}", PATIENCE)
        except TimeoutError as error:
            raise AssertionError(f"{error}; it is listed as {_brief(last[0])}") from None


def _matches(row: dict[str, Any], now: State) -> bool:
    return (
        row["status"] == now.status
        and now.waiting_for in (None, row["waiting_for"])
        and now.outcome in (None, row["outcome"])
    )


def _no_lie(row: dict[str, Any] | None, now: State, *, dead: bool) -> None:
    if row is None:
        return
    if now.status != "stopped" and not dead:
        assert row["status"] != "stopped", f"stopped, while it lives: {_brief(row)}"
    if now.status == "stopped" and dead:
        assert row["status"] not in LIVING, f"alive, while it is dead: {_brief(row)}"


def _brief(row: dict[str, Any] | None) -> str:
    if row is None:
        return "nothing: it is not listed"
    summary = " ".join(
        str(row[key]) for key in ("id", "pid", "status", "activity", "waiting_for", "outcome")
    )
    evidence = "\n".join(f"  {e['claim']} {e['address']} {e['note']}" for e in row["evidence"])
    return f"{summary}: {row['reason']}\n{evidence}"
