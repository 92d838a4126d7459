"""What there is to measure at this moment, as families of metrics. States are looked at when asked;
nothing is remembered here. What only a daemon can count is in `counters`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import agentctl
from agentctl import paths
from agentctl.errors import SourceError
from agentctl.metrics.exposition import Family, Sample
from agentctl.metrics.families import FAMILIES, family
from agentctl.sessions import query
from agentctl.state import db, locks, remains
from agentctl.system import files
from agentctl.truth.model import Session
from agentctl.truth.survey import Survey

Key = tuple[str, ...]
Rows = Iterable[tuple[Any, ...]]  # labels, and a number


def collect(environ: Mapping[str, str], look: Callable[[], Survey] = query.everything) -> list[Family]:
    """All that can be told without a daemon. Raises UsageError for a deadline that is none."""
    state = paths.state_directory(environ)
    built = family("agentctl_build_info", [Sample({"version": agentctl.__version__}, 1)])
    return [built, *of_survey(look()), *of_state(paths.notes_file(state) if state else None)]


def of_survey(found: Survey) -> Iterator[Family]:
    live = [s for s in found.sessions if s.verdict.status != "stopped"]
    yield _counted("agentctl_sessions", ((s.seen.adapter, s.verdict.status) for s in live))
    yield _counted(
        "agentctl_sessions_waiting",
        ((s.seen.adapter, s.verdict.waiting_for) for s in live if s.verdict.waiting_for),
    )
    yield _summed("agentctl_session_tokens", _tokens(live))
    yield _summed("agentctl_session_cost_usd", _costs(live))
    yield _summed("agentctl_survey_adapter_seconds", found.took.items())
    yield _counted("agentctl_survey_problems", ((p.adapter, p.kind) for p in found.problems))


def of_state(path: str | None) -> Iterator[Family]:
    """Of our own database; what cannot be read is missing, and that is told."""
    problems: set[str] = set()
    for name, read in _STATES.items():
        try:
            yield _summed(name, read(path) if path is not None else ())
        except SourceError as error:
            problems.add(error.kind)
    yield _summed("agentctl_state_problems", ((kind, 1) for kind in problems))


def of_process(start: float) -> Iterator[Family]:
    """Of this very process, which began at that moment."""
    times = os.times()
    yield family("agentctl_daemon_start_time_seconds", [Sample({}, start)])
    yield family("agentctl_daemon_cpu_seconds_total", [Sample({}, times.user + times.system)])
    yield family(
        "agentctl_daemon_memory_bytes", (Sample({"kind": kind}, size) for kind, size in _memory())
    )


def _launches(path: str) -> Rows:
    found = Counter("live" if note.may_live else "ended" for note in remains.recorded(path))
    return [(state, found[state]) for state in ("live", "ended")]


def _locks(path: str) -> Rows:
    held = Counter("agent" if lock.launch_id else "person" for lock in locks.held(path))
    return [(who, held[who]) for who in ("agent", "person")]


def _fuses(path: str) -> Rows:
    found: dict[str, int] = dict(_rows(path, "fuse", "select phase, count(*) from fuse group by phase"))
    return [(state, found.get(state, 0)) for state in ("burning", "firing")]


def _deliveries(path: str) -> Rows:
    counts = "select kind, target, phase, count(*) from outbox group by kind, target, phase"
    return _rows(path, "outbox", counts)


_STATES: dict[str, Callable[[str], Rows]] = {
    "agentctl_launches": _launches,
    "agentctl_locks": _locks,
    "agentctl_fuses": _fuses,
    "agentctl_deliveries": _deliveries,
}


def _rows(path: str, table: str, select: str) -> list[tuple[Any, ...]]:
    with db.reader(path) as database:
        return database.rows(select) if database is not None and database.columns(table) else []


def _tokens(live: Iterable[Session]) -> Iterator[tuple[str, str, float]]:
    for session in live:
        tokens = session.seen.facts.tokens
        for kind, count in tokens._asdict().items() if tokens is not None else ():
            if count is not None:
                yield session.seen.adapter, kind, count


def _costs(live: Iterable[Session]) -> Iterator[tuple[str, float]]:
    for session in live:
        if session.seen.facts.cost_usd is not None:
            yield session.seen.adapter, session.seen.facts.cost_usd


def _counted(name: str, keys: Iterable[Key]) -> Family:
    return _summed(name, ((*key, 1) for key in keys))


def _summed(name: str, rows: Rows) -> Family:
    """Those of the same labels are one."""
    labels, sums = FAMILIES[name].labels, dict[Key, float]()
    for *key, value in rows:
        sums[tuple(key)] = sums.get(tuple(key), 0) + value
    return family(
        name, (Sample(dict(zip(labels, key, strict=True)), value) for key, value in sorted(sums.items()))
    )


def _memory() -> Iterator[tuple[str, float]]:
    """As the kernel tells it: added up over all mappings. Raises nothing: not every kernel does."""
    try:
        said = files.head("/proc/self/smaps_rollup", 4096).data.decode("ascii", "replace")
    except SourceError:
        return
    sizes = {line.partition(":")[0]: line.split() for line in said.splitlines()}
    kilobytes = {name: int(words[1]) for name, words in sizes.items() if words[2:] == ["kB"]}
    private = kilobytes.get("Private_Clean", 0) + kilobytes.get("Private_Dirty", 0)
    yield "resident", kilobytes.get("Rss", 0) * 1024.0
    yield "private", private * 1024.0
