"""The rows of the daemon: what it costs while it watches, how soon it reports, and what it misses."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from tests.bench import flood, watching
from tests.bench.row import Row

Flood = tuple[int, int, int]  # agents, changes a second of each, seconds
MINUTE = 60_000  # milliseconds
# A minute of watching may cost this many bare interpreters. It takes 14 to 16.3, which is 0.18 to 0.21 %
# of a core where one takes 7.8 ms.
INTERPRETERS = 18


def rows(
    root: Path, scale: watching.Scale, much: Flood, notes: list[str], floor: float
) -> Iterator[Row]:
    """`floor`: milliseconds of CPU of a bare interpreter, for what has no other floor."""
    yield from _watching(root, scale, notes, floor)
    yield from _flood(root, much, notes)


def _watching(root: Path, scale: watching.Scale, notes: list[str], floor: float) -> Iterator[Row]:
    costs = watching.in_a_room(root / "watch", scale)
    live, history = f"daemon, {scale.live} live", f"beside {scale.history} ended"
    yield Row(f"{live}, all quiet, CPU in a minute", costs.quiet * MINUTE, floor, INTERPRETERS)
    yield Row(f"{live}, one at work, CPU in a minute", costs.working * MINUTE, floor, INTERPRETERS)
    yield Row(f"{live}, one at work, {history}", costs.laden * MINUTE, costs.working * MINUTE, 1.3)
    yield Row("memory of the daemon", costs.memory, None, 45, "MB")
    yield Row(f"memory of the daemon, {history}", costs.laden_memory, None, 45, "MB")
    yield Row(f"daemon start, {history}, wall time", costs.laden_start * 1000, costs.start * 1000, 3)
    deaths, changes = ([1000 * t for t in times] for times in (costs.deaths, costs.changes))
    yield Row("kill -9 to session.stopped, median", statistics.median(deaths), floor, 2)
    yield Row("kill -9 to session.stopped, p95", watching.percentile(deaths, 0.95), floor, 6)
    yield Row("a change of a record to its event, median", statistics.median(changes), floor, 6)
    notes.append(
        f"{len(deaths)} kills, {len(changes)} changes, {scale.rows} journal rows beside the ended; "
        f"load {costs.load:.1f}"
    )


def _flood(root: Path, much: Flood, notes: list[str]) -> Iterator[Row]:
    agents, rate, seconds = much
    words = [str(word) for word in much]
    result = flood.Reconciled(*watching.run_in_a_room("tests.bench.flood", root / "flood", *words))
    what = f"{agents * rate} changes/s for {seconds} s, unreported and in no gap"
    yield Row(what, len(result.missed) + len(result.invented), None, 0, "missed")
    notes.append(
        f"{result.changes} changes at {result.rate:.0f} a second: {result.reported} reported, "
        f"{result.within} within {result.gaps} gaps (the longest {result.longest:.2f} s); the daemon "
        f"took {result.cpu:.0%} of a core"
    )
