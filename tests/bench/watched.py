"""The rows of the daemon: what it costs while it watches, how soon it tells, and what it misses."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from tests.bench import flood, watching
from tests.bench.row import Row

Flood = tuple[int, int, int]  # agents, changes a second of each, seconds
MINUTE = 60_000  # milliseconds: 0.2 % of one core are 120 in each


def rows(root: Path, scale: watching.Scale, much: Flood, notes: list[str]) -> Iterator[Row]:
    yield from _watching(root, scale, notes)
    yield from _flood(root, much, notes)


def _watching(root: Path, scale: watching.Scale, notes: list[str]) -> Iterator[Row]:
    found = watching.in_a_room(root / "watch", scale)
    live, ended = f"daemon, {scale.live} live", f"beside {scale.history} ended"
    yield Row(f"{live}, all quiet, CPU in a minute", found.quiet * MINUTE, None, 120)
    yield Row(f"{live}, one at work, CPU in a minute", found.working * MINUTE, None, 120)
    yield Row(f"{live}, one at work, {ended}", found.laden * MINUTE, found.working * MINUTE, 1.3)
    yield Row("memory of the daemon", found.memory, None, 45, "MB")
    yield Row(f"memory of the daemon, {ended}", found.laden_memory, None, 45, "MB")
    yield Row(f"daemon start, {ended}, wall time", found.laden_start * 1000, found.start * 1000, 3)
    deaths, changes = ([1000 * t for t in times] for times in (found.deaths, found.changes))
    yield Row("kill -9 to session.stopped, median", statistics.median(deaths), None, 20)
    yield Row("kill -9 to session.stopped, p95", watching.percentile(deaths, 0.95), None, 60)
    yield Row("a change of a record to its event, median", statistics.median(changes), None, 60)
    notes.append(
        f"{len(deaths)} kills, {len(changes)} changes, {scale.rows} journal rows beside the ended; "
        f"load {found.load:.1f}"
    )


def _flood(root: Path, much: Flood, notes: list[str]) -> Iterator[Row]:
    agents, rate, seconds = much
    words = [str(word) for word in much]
    found = flood.Reconciled(*watching.roomed("tests.bench.flood", root / "flood", *words))
    what = f"{agents * rate} changes/s for {seconds} s, untold and in no gap"
    yield Row(what, len(found.missed) + len(found.invented), None, 0, "missed")
    notes.append(
        f"{found.changes} changes at {found.rate:.0f} a second: {found.told} told, {found.within} "
        f"within {found.gaps} gaps (the longest {found.longest:.2f} s); the daemon took "
        f"{found.cpu:.0%} of a core"
    )
