"""What has happened since the daemon started, counted from the journal as it grows.

A counter must not go down while its process lives, or every rate computed from it is wrong; one that
counted the journal's rows would, whenever old ones are pruned. So it is kept in memory: from 0 at the
start, which Prometheus knows as a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentctl.metrics.exposition import Family, Histogram, Sample
from agentctl.metrics.families import family
from agentctl.state import journal
from agentctl.state.journal import Event
from agentctl.system import clock
from agentctl.truth.event_types import USER

AT_ONCE = 20_000  # events in one go: what is left is counted the next time
REMEMBERED = 4096  # ended sessions whose totals are remembered, for when they are resumed and end again
MUCH = 1e18  # what is more is no count, and would stop every sum that it comes into
MINUTE = 60.0
LENGTHS = (10, MINUTE, 5 * MINUTE, 15 * MINUTE, 60 * MINUTE, 180 * MINUTE, 480 * MINUTE, 1440 * MINUTE)
SURVEYS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)  # seconds

Key = tuple[str, ...]
Totals = dict[str, float]


class Tally:
    """Belongs to one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seq: int | None = None  # of the last event counted
        self._counts: dict[str, dict[Key, float]] = {}
        self._lengths: dict[str, Histogram] = {}
        self._surveys = Histogram(SURVEYS)
        self._before: dict[tuple[str, str], Totals] = {}

    def catch_up(self) -> None:
        """The first time: begins here, for what the journal holds already was before. Raises
        SourceError; what was counted stays so."""
        last = journal.last(self._path)
        if self._seq is None:
            self._seq = last
        seq = 0 if last < self._seq else self._seq  # 0: it was deleted, and begun anew
        end = seq + AT_ONCE
        while seq < end:
            events = journal.after(self._path, seq)
            for event in events:
                seq = self._seq = event.seq or seq  # first: one that cannot be counted is not met again
                self.count(event)
            if len(events) < journal.PAGE:
                return

    def surveyed(self, seconds: float) -> None:
        self._surveys.observe(seconds)

    def count(self, event: Event) -> None:
        # names that people choose are one: a series for each would never end
        self._add("agentctl_events_total", (f"{USER}*" if event.type.startswith(USER) else event.type,))
        what, _, result = event.type.partition(".")
        if event.type == "launch.started":
            self._add("agentctl_launches_total", (event.adapter or "",))
        elif event.type == "session.stopped":
            self._stopped(event)
        elif what in ("webhook", "notify"):
            target = str(_mapping(event.body.get("data")).get("target") or event.subject or "")
            self._add("agentctl_deliveries_total", (what, target, result))

    def families(self) -> Iterator[Family]:
        for name, labels in (
            ("agentctl_events_total", ("type",)),
            ("agentctl_launches_total", ("adapter",)),
            ("agentctl_sessions_ended_total", ("adapter", "outcome")),
            ("agentctl_ended_session_tokens_total", ("adapter", "kind")),
            ("agentctl_ended_session_cost_usd_total", ("adapter",)),
            ("agentctl_deliveries_total", ("kind", "target", "result")),
        ):
            counted = sorted(self._counts.get(name, {}).items())
            yield family(
                name, (Sample(dict(zip(labels, key, strict=True)), value) for key, value in counted)
            )
        lengths = sorted(self._lengths.items())
        yield family(
            "agentctl_session_duration_seconds",
            (sample for adapter, made in lengths for sample in made.samples({"adapter": adapter})),
        )
        yield family("agentctl_survey_duration_seconds", self._surveys.samples())

    def _stopped(self, event: Event) -> None:
        session = _mapping(event.body.get("session"))
        adapter = event.adapter or ""
        self._add("agentctl_sessions_ended_total", (adapter, str(session.get("outcome") or "unknown")))
        began = clock.parse(session.get("started_at"))
        if began is not None:
            lasted = max(0.0, (event.at if event.at is not None else event.seen_at) - began)
            self._lengths.setdefault(adapter, Histogram(LENGTHS)).observe(lasted)
        for kind, more in self._grown(adapter, event.subject, _totals(session)).items():
            if kind == "cost_usd":
                self._add("agentctl_ended_session_cost_usd_total", (adapter,), more)
            else:
                self._add("agentctl_ended_session_tokens_total", (adapter, kind), more)

    def _grown(self, adapter: str, subject: str | None, totals: Totals) -> Totals:
        """An agent writes totals of the whole session: one that was resumed has more than when it ended
        before, and only that counts anew."""
        if subject is None:
            return totals
        before = self._before.pop((adapter, subject), {})
        self._before[adapter, subject] = totals
        if len(self._before) > REMEMBERED:
            del self._before[next(iter(self._before))]  # whose end is longest ago
        return {kind: max(0.0, value - before.get(kind, 0.0)) for kind, value in totals.items()}

    def _add(self, name: str, key: Key, value: float = 1) -> None:
        counts = self._counts.setdefault(name, {})
        counts[key] = counts.get(key, 0) + value


def _totals(session: Mapping[str, Any]) -> Totals:
    told = {**_mapping(session.get("tokens")), "cost_usd": session.get("cost_usd")}
    return {kind: float(n) for kind, n in told.items() if isinstance(n, int | float) and 0 <= n < MUCH}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
