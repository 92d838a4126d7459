"""Compare the slots of a group: the survey says how each session stands, git says what it changed."""

from __future__ import annotations

import os
import time

from agentctl import paths
from agentctl.compare.changes import Content, Reader, find_conflicts
from agentctl.compare.model import Comparison, Row
from agentctl.errors import NotFound, SourceError
from agentctl.light_typing import Callable, Iterable, Iterator, NamedTuple, Sequence
from agentctl.sessions import query
from agentctl.state import launches
from agentctl.truth.model import HookRun, Launch, Problem, Session
from agentctl.truth.survey import HistoryQuery

CHECK = "on-complete"


class Patch(NamedTuple):
    slot: str
    text: str | None  # None: not known
    unknown: str | None  # why it is not known


def list_groups() -> dict[str, list[Launch]]:
    """Return the launch notes of every group, the latest group first."""
    state = paths.state_directory(os.environ)
    by_group: dict[str, list[Launch]] = {}
    notes = launches.read_launches(paths.database_file(state)) if state is not None else []
    for note in reversed(notes):
        if note.group:
            by_group.setdefault(note.group, []).append(note)
    return by_group


def compare(text: str, *, deadline: float | None = None) -> Comparison:
    """Compare the group of this name or prefix. Raises NotFound, Ambiguous."""
    return _compare(text, deadline, lambda _: None)


def compare_with_patches(text: str, *, deadline: float | None = None) -> tuple[Comparison, list[Patch]]:
    """Return the comparison and the patches, from one look at the worktrees."""
    texts: dict[str, str] = {}

    def read_patches(contents: dict[str, Content]) -> None:
        for name, content in contents.items():
            texts[name] = content.scratch.patch(content.base, content.tree)

    comparison = _compare(text, deadline, read_patches)
    patches = [Patch(row.slot, texts.get(row.slot), row.changes_unknown) for row in comparison.rows]
    return comparison, patches


def _compare(
    text: str, deadline: float | None, while_open: Callable[[dict[str, Content]], None]
) -> Comparison:
    """`while_open` is called while the git objects of the slots exist."""
    notes = list_groups()
    group = query.pick_group(text, list(notes))
    oldest = min(note.created_at or 0.0 for note in notes[group])
    survey = query.survey_sessions(HistoryQuery(oldest - 1.0), (), deadline)
    sessions = name_slots(select_group(survey.sessions, group))
    if not sessions:
        raise NotFound(f"no session of group {group!r} is left", "their transcripts are gone")
    problems = list(survey.problems)
    rows = list(_make_rows(sessions, problems, while_open))
    return Comparison(group, tuple(sort_rows(_mark_best(rows))), tuple(problems))


def select_group(sessions: Iterable[Session], group: str) -> list[Session]:
    """Return one session for each launch: a process may run other sessions beside the launched one."""
    by_launch: dict[str, Session] = {}
    for session in sessions:
        note = session.launch
        if note is None or note.group != group:
            continue
        if note.id not in by_launch or session.observation.session_id == note.session_id:
            by_launch[note.id] = session
    return sorted(by_launch.values(), key=lambda s: (s.launch.created_at or 0.0) if s.launch else 0.0)


def name_slots(sessions: Sequence[Session]) -> dict[str, Session]:
    """Return the sessions by distinct names: `opus` and `sonnet`, of a group launched as `try/opus`…"""
    labels = [_label(session) for session in sessions]
    prefixes = {label.partition("/")[0] if "/" in label else None for label in labels}
    is_common = len(prefixes) == 1 and None not in prefixes and len(labels) > 1
    common = f"{prefixes.pop()}/" if is_common else ""
    by_name: dict[str, Session] = {}
    for session, full_label in zip(sessions, labels, strict=True):
        label = full_label.removeprefix(common)
        name, number = label, 1
        while name in by_name:
            number += 1
            name = f"{label}-{number}"
        by_name[name] = session
    return by_name


def _label(session: Session) -> str:
    note = session.launch
    return (note.name or note.model if note is not None else None) or session.observation.adapter


def _make_rows(
    sessions: dict[str, Session],
    problems: list[Problem],
    while_open: Callable[[dict[str, Content]], None],
) -> Iterator[Row]:
    contents: dict[str, Content] = {}
    unknown: dict[str, str] = {}
    with Reader() as reader:
        for name, session in sessions.items():
            worktree = session.launch.worktree if session.launch is not None else None
            if worktree is None:
                unknown[name] = "it ran in a plain directory"
                continue
            try:
                contents[name] = reader.read(worktree)
            except SourceError as error:
                unknown[name] = error.why
        try:
            conflicts = {name: tuple(each) for name, each in find_conflicts(contents).items()}
        except SourceError as error:
            problems.append(
                Problem("", error.kind, f"conflicts are not known: {error.why}", error.source)
            )
            conflicts = {}
        while_open(contents)
    now = time.time()
    for name, session in sessions.items():
        note, content = session.launch, contents.get(name)
        yield Row(
            slot=name,
            session=session,
            seconds=measure_seconds(session, now),
            worktree=note.worktree if note is not None else None,
            changes=content.changes if content is not None else None,
            changes_unknown=unknown.get(name),
            check=find_check(note),
            conflicts=conflicts.get(name),
        )


def measure_seconds(session: Session, now: float) -> float | None:
    """Return the seconds from the launch to the end. Without an exit record, the last activity is the
    end."""
    note, facts = session.launch, session.observation.facts
    start = (note.created_at if note is not None else None) or facts.started_at
    if session.verdict.status != "stopped":
        end: float | None = now
    else:
        end = note.exit.at if note is not None and note.exit else facts.last_activity_at
    return max(0.0, end - start) if start is not None and end is not None else None


def find_check(note: Launch | None) -> HookRun | None:
    """Return the last run of the on-complete hook."""
    runs = [run for run in (note.hooks if note is not None else ()) if run.hook == CHECK]
    return runs[-1] if runs else None


_MEASURES: dict[str, Callable[[Row], float | None]] = {
    "seconds": lambda row: row.seconds,
    "tokens": lambda row: row.tokens,
    "cost_usd": lambda row: row.session.observation.facts.cost_usd,
    "lines": lambda row: row.changes.lines if row.changes and row.changes.files else None,
}


def _mark_best(rows: list[Row]) -> list[Row]:
    """Mark the lowest value of each measure among the rows that are done. Equal values get no mark."""
    lowest: dict[str, float] = {}
    for name, measure in _MEASURES.items():
        values = [value for row in rows if row.is_done and (value := measure(row)) is not None]
        if len(set(values)) > 1:
            lowest[name] = min(values)
    return [
        row._replace(
            best_in=tuple(
                name for name, value in lowest.items() if row.is_done and _MEASURES[name](row) == value
            )
        )
        for row in rows
    ]


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Sort the rows: done, then ended, then live; the quicker first."""
    return sorted(rows, key=_rank)


def _rank(row: Row) -> tuple[int, float]:
    verdict = row.session.verdict
    if verdict.status == "stopped":
        place = 0 if row.is_done else 1 if verdict.outcome == "completed" else 2
    else:
        place = 3 if verdict.status != "unknown" else 4
    return place, row.seconds if row.seconds is not None else float("inf")
