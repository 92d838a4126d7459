"""Measure the present state, as families of metrics. Everything is read when asked. What only a daemon
can count is in `counters`."""

from __future__ import annotations

import os
from collections import Counter

import agentctl
from agentctl import paths
from agentctl.errors import SourceError
from agentctl.light_typing import Any, Callable, Iterable, Iterator, Mapping
from agentctl.metrics.exposition import Family, Sample
from agentctl.metrics.families import FAMILIES, make_family
from agentctl.sessions import query
from agentctl.state import db, launches, locks
from agentctl.system import this_process
from agentctl.truth.model import Session
from agentctl.truth.survey import Survey

Key = tuple[str, ...]
Rows = Iterable[tuple[Any, ...]]  # labels, and a number


def collect(
    environ: Mapping[str, str], look: Callable[[], Survey] = query.survey_sessions
) -> list[Family]:
    """Return all families that need no daemon. Raises UsageError for an invalid deadline."""
    state = paths.state_directory(environ)
    return [
        make_family("agentctl_build_info", [Sample({"version": agentctl.__version__}, 1)]),
        *survey_families(look()),
        *state_families(paths.database_file(state) if state else None),
    ]


def survey_families(survey: Survey) -> Iterator[Family]:
    live = [s for s in survey.sessions if s.verdict.status != "stopped"]
    yield _count("agentctl_sessions", ((s.observation.adapter, s.verdict.status) for s in live))
    yield _count(
        "agentctl_sessions_waiting",
        ((s.observation.adapter, s.verdict.waiting_for) for s in live if s.verdict.waiting_for),
    )
    yield _sum("agentctl_session_tokens", _tokens(live))
    yield _sum("agentctl_session_cost_usd", _costs(live))
    yield _sum("agentctl_survey_adapter_seconds", survey.durations.items())
    yield _count("agentctl_survey_problems", ((p.adapter, p.kind) for p in survey.problems))


def state_families(path: str | None) -> Iterator[Family]:
    """Yield the families of our database. A family that cannot be read is missing, and counts as a
    problem."""
    problems: set[str] = set()
    for name, read in _STATES.items():
        try:
            yield _sum(name, read(path) if path is not None else ())
        except SourceError as error:
            problems.add(error.kind)
    yield _sum("agentctl_state_problems", ((kind, 1) for kind in problems))


def process_families(start: float) -> Iterator[Family]:
    """Yield the families of this process, which started at that moment."""
    times = os.times()
    yield make_family("agentctl_daemon_start_time_seconds", [Sample({}, start)])
    yield make_family("agentctl_daemon_cpu_seconds_total", [Sample({}, times.user + times.system)])
    yield make_family(
        "agentctl_daemon_memory_bytes", (Sample({"kind": kind}, size) for kind, size in _read_memory())
    )


def _count_launches(path: str) -> Rows:
    counts = Counter("live" if note.may_live else "ended" for note in launches.read_launch_rows(path))
    return [(state, counts[state]) for state in ("live", "ended")]


def _count_locks(path: str) -> Rows:
    counts = Counter("agent" if lock.launch_id else "person" for lock in locks.list_held(path))
    return [(holder, counts[holder]) for holder in ("agent", "person")]


def _count_fuses(path: str) -> Rows:
    select = "select phase, count(*) from fuse group by phase"
    counts: dict[str, int] = dict(_read_rows(path, "fuse", select))
    return [(state, counts.get(state, 0)) for state in ("burning", "firing")]


def _count_deliveries(path: str) -> Rows:
    select = "select kind, target, phase, count(*) from outbox group by kind, target, phase"
    return _read_rows(path, "outbox", select)


_STATES: dict[str, Callable[[str], Rows]] = {
    "agentctl_launches": _count_launches,
    "agentctl_locks": _count_locks,
    "agentctl_fuses": _count_fuses,
    "agentctl_deliveries": _count_deliveries,
}


def _read_rows(path: str, table: str, select: str) -> list[tuple[Any, ...]]:
    with db.open_reader(path) as database:
        return database.rows(select) if database is not None and database.columns(table) else []


def _tokens(live: Iterable[Session]) -> Iterator[tuple[str, str, float]]:
    for session in live:
        tokens = session.observation.facts.tokens
        for kind, count in tokens._asdict().items() if tokens is not None else ():
            if count is not None:
                yield session.observation.adapter, kind, count


def _costs(live: Iterable[Session]) -> Iterator[tuple[str, float]]:
    for session in live:
        if session.observation.facts.cost_usd is not None:
            yield session.observation.adapter, session.observation.facts.cost_usd


def _count(name: str, keys: Iterable[Key]) -> Family:
    return _sum(name, ((*key, 1) for key in keys))


def _sum(name: str, rows: Rows) -> Family:
    """Return a family of the rows. Values with the same labels are added up."""
    labels, sums = FAMILIES[name].labels, dict[Key, float]()
    for *key, value in rows:
        sums[tuple(key)] = sums.get(tuple(key), 0) + value
    return make_family(
        name, (Sample(dict(zip(labels, key, strict=True)), value) for key, value in sorted(sums.items()))
    )


def _read_memory() -> Iterator[tuple[str, float]]:
    """Yield what the kernel says, added up over all mappings. Some kernels say nothing."""
    sizes = this_process.read_memory()
    if sizes:
        yield "resident", float(sizes.get("Rss", 0))
        yield "private", float(sizes.get("Private_Clean", 0) + sizes.get("Private_Dirty", 0))
