"""Count what happened since the daemon started, from the journal as it grows.

A counter must not go down while its process lives, or every rate is wrong. The number of rows in the
journal goes down when old ones are pruned. So the counters are in memory, from 0 at the start of the
daemon: Prometheus understands that as a restart.
"""

from __future__ import annotations

from agentctl.light_typing import Any, Iterator, Mapping
from agentctl.metrics.exposition import Family, Histogram, Sample
from agentctl.metrics.families import make_family
from agentctl.state import journal
from agentctl.state.journal import Event
from agentctl.system import clock
from agentctl.truth.event import USER

AT_ONCE = 20_000  # events in one call; the next call counts the rest
REMEMBERED = 4096  # ended sessions whose totals we keep, in case they are resumed and end again
LARGEST = 1e18  # a larger number is no count, and would spoil every sum
MINUTE = 60.0
LENGTHS = (10, MINUTE, 5 * MINUTE, 15 * MINUTE, 60 * MINUTE, 180 * MINUTE, 480 * MINUTE, 1440 * MINUTE)
SURVEYS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)  # seconds

Key = tuple[str, ...]
Totals = dict[str, float]


class EventCounters:
    """Not thread-safe: use it from one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seq: int | None = None  # of the last event counted
        self._counts: dict[str, dict[Key, float]] = {}
        self._lengths: dict[str, Histogram] = {}
        self._surveys = Histogram(SURVEYS)
        self._before: dict[tuple[str, str], Totals] = {}

    def catch_up(self) -> None:
        """Count the new events. The first call only notes the end of the journal: its events happened
        before. Raises SourceError, and keeps what is counted."""
        last = journal.read_last_seq(self._path)
        if self._seq is None:
            self._seq = last
        seq = 0 if last < self._seq else self._seq  # 0: the journal was deleted
        end = seq + AT_ONCE
        while seq < end:
            events = journal.read_after(self._path, seq)
            for event in events:
                seq = self._seq = event.seq or seq  # first: do not meet a bad event again
                self.count(event)
            if len(events) < journal.PAGE:
                return

    def observe_survey(self, seconds: float) -> None:
        self._surveys.observe(seconds)

    def count(self, event: Event) -> None:
        # all names that users choose are one series: their number has no limit
        self._add("agentctl_events_total", (f"{USER}*" if event.type.startswith(USER) else event.type,))
        what, _, result = event.type.partition(".")
        if event.type == "launch.started":
            self._add("agentctl_launches_total", (event.adapter or "",))
        elif event.type == "session.stopped":
            self._count_end(event)
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
            counts = sorted(self._counts.get(name, {}).items())
            yield make_family(
                name, (Sample(dict(zip(labels, key, strict=True)), value) for key, value in counts)
            )
        lengths = sorted(self._lengths.items())
        yield make_family(
            "agentctl_session_duration_seconds",
            (sample for adapter, each in lengths for sample in each.samples({"adapter": adapter})),
        )
        yield make_family("agentctl_survey_duration_seconds", self._surveys.samples())

    def _count_end(self, event: Event) -> None:
        session = _mapping(event.body.get("session"))
        adapter = event.adapter or ""
        self._add("agentctl_sessions_ended_total", (adapter, str(session.get("outcome") or "unknown")))
        start = clock.parse_time(session.get("started_at"))
        if start is not None:
            seconds = max(0.0, (event.at if event.at is not None else event.seen_at) - start)
            self._lengths.setdefault(adapter, Histogram(LENGTHS)).observe(seconds)
        for kind, more in self._subtract_earlier(adapter, event.subject, _read_totals(session)).items():
            if kind == "cost_usd":
                self._add("agentctl_ended_session_cost_usd_total", (adapter,), more)
            else:
                self._add("agentctl_ended_session_tokens_total", (adapter, kind), more)

    def _subtract_earlier(self, adapter: str, subject: str | None, totals: Totals) -> Totals:
        """Return what was added since the session ended before. An agent records totals of the whole
        session, also of one that was resumed."""
        if subject is None:
            return totals
        before = self._before.pop((adapter, subject), {})
        self._before[adapter, subject] = totals
        if len(self._before) > REMEMBERED:
            del self._before[next(iter(self._before))]  # the one that ended first
        return {kind: max(0.0, value - before.get(kind, 0.0)) for kind, value in totals.items()}

    def _add(self, name: str, key: Key, value: float = 1) -> None:
        counts = self._counts.setdefault(name, {})
        counts[key] = counts.get(key, 0) + value


def _read_totals(session: Mapping[str, Any]) -> Totals:
    values = {**_mapping(session.get("tokens")), "cost_usd": session.get("cost_usd")}
    return {
        kind: float(n) for kind, n in values.items() if isinstance(n, int | float) and 0 <= n < LARGEST
    }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
