"""A group's slots side by side: what each session is, by the same survey as everywhere, and what it
has done to its worktree, by git."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from agentctl import paths
from agentctl.compare.changes import Content, Reader, conflicts
from agentctl.compare.model import Comparison, Row
from agentctl.errors import NotFound, SourceError
from agentctl.sessions import query
from agentctl.state import launches
from agentctl.truth.model import HookRun, Launch, Problem, Session
from agentctl.truth.survey import Wanted

CHECK = "on-complete"


class Patch(NamedTuple):
    slot: str
    text: str | None  # None: not known
    unknown: str | None  # then why


def groups() -> dict[str, list[Launch]]:
    """Every group that we remember, the latest first."""
    state = paths.state_directory(os.environ)
    found: dict[str, list[Launch]] = {}
    notes = launches.recorded(paths.notes_file(state)) if state is not None else []
    for note in reversed(notes):
        if note.group:
            found.setdefault(note.group, []).append(note)
    return found


def compare(text: str, *, deadline: float | None = None) -> Comparison:
    return _compared(text, deadline, lambda _: None)


def compare_with_patches(text: str, *, deadline: float | None = None) -> tuple[Comparison, list[Patch]]:
    """Both from one look at the worktrees."""
    texts: dict[str, str] = {}

    def keep(contents: dict[str, Content]) -> None:
        for name, content in contents.items():
            texts[name] = content.scratch.patch(content.base, content.tree)

    found = _compared(text, deadline, keep)
    return found, [Patch(row.slot, texts.get(row.slot), row.changes_unknown) for row in found.rows]


def _compared(
    text: str, deadline: float | None, while_open: Callable[[dict[str, Content]], None]
) -> Comparison:
    known = groups()
    group = query.group_named(text, list(known))
    oldest = min(note.created_at or 0.0 for note in known[group])
    found = query.everything(Wanted(oldest - 1.0), (), deadline)
    sessions = named(of_group(found.sessions, group))
    if not sessions:
        raise NotFound(f"no session of group {group!r} is left", "their transcripts are gone")
    problems = list(found.problems)
    rows = list(_rows(sessions, problems, while_open))
    return Comparison(group, tuple(in_order(_best(rows))), tuple(problems))


def of_group(sessions: Iterable[Session], group: str) -> list[Session]:
    """One for each launch: a process may run sessions of its own beside the one that we asked for."""
    found: dict[str, Session] = {}
    for session in sessions:
        note = session.launch
        if note is None or note.group != group:
            continue
        if note.id not in found or session.seen.session_id == note.session_id:
            found[note.id] = session
    return sorted(found.values(), key=lambda s: (s.launch.created_at or 0.0) if s.launch else 0.0)


def named(sessions: Sequence[Session]) -> dict[str, Session]:
    """By names that tell them apart: `opus` and `sonnet`, of a group launched as `try/opus`…"""
    labels = [_label(session) for session in sessions]
    begins = {label.partition("/")[0] if "/" in label else None for label in labels}
    common = f"{begins.pop()}/" if len(begins) == 1 and None not in begins and len(labels) > 1 else ""
    found: dict[str, Session] = {}
    for session, whole in zip(sessions, labels, strict=True):
        label = whole.removeprefix(common)
        name, number = label, 1
        while name in found:
            number += 1
            name = f"{label}-{number}"
        found[name] = session
    return found


def _label(session: Session) -> str:
    note = session.launch
    return (note.name or note.model if note is not None else None) or session.seen.adapter


def _rows(
    sessions: dict[str, Session],
    problems: list[Problem],
    while_open: Callable[[dict[str, Content]], None],
) -> Iterator[Row]:
    contents: dict[str, Content] = {}
    unknown: dict[str, str] = {}
    with Reader() as reader:
        for name, session in sessions.items():
            made = session.launch.worktree if session.launch is not None else None
            if made is None:
                unknown[name] = "it ran in a plain directory"
                continue
            try:
                contents[name] = reader.read(made)
            except SourceError as error:
                unknown[name] = error.why
        try:
            between = {name: tuple(found) for name, found in conflicts(contents).items()}
        except SourceError as error:
            problems.append(
                Problem("", error.kind, f"conflicts are not known: {error.why}", error.source)
            )
            between = {}
        while_open(contents)
    now = time.time()
    for name, session in sessions.items():
        note, content = session.launch, contents.get(name)
        yield Row(
            name,
            session,
            seconds(session, now),
            note.worktree if note is not None else None,
            content.changes if content is not None else None,
            unknown.get(name),
            check_of(note),
            between.get(name),
        )


def seconds(session: Session, now: float) -> float | None:
    """From the launch to the end. An end that nobody wrote down is its last sign of life."""
    note, facts = session.launch, session.seen.facts
    began = (note.created_at if note is not None else None) or facts.started_at
    if session.verdict.status != "stopped":
        ended: float | None = now
    else:
        ended = note.ended.at if note is not None and note.ended else facts.last_activity_at
    return max(0.0, ended - began) if began is not None and ended is not None else None


def check_of(note: Launch | None) -> HookRun | None:
    runs = [run for run in (note.hooks if note is not None else ()) if run.hook == CHECK]
    return runs[-1] if runs else None


_MEASURES: dict[str, Callable[[Row], float | None]] = {
    "seconds": lambda row: row.seconds,
    "tokens": lambda row: row.tokens,
    "cost_usd": lambda row: row.session.seen.facts.cost_usd,
    "lines": lambda row: row.changes.lines if row.changes and row.changes.files else None,
}


def measure(row: Row, what: str) -> float | None:
    return _MEASURES[what](row)


def _best(rows: list[Row]) -> list[Row]:
    """The least of each measure, among those that are done; nobody where there is no difference."""
    best: dict[str, float] = {}
    for what in _MEASURES:
        values = [value for row in rows if row.done and (value := measure(row, what)) is not None]
        if len(set(values)) > 1:
            best[what] = min(values)
    return [
        row._replace(
            best_in=tuple(w for w, least in best.items() if row.done and measure(row, w) == least)
        )
        for row in rows
    ]


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Done ones first, then those that ended, then those still at it; the quicker first."""
    return sorted(rows, key=_rank)


def _rank(row: Row) -> tuple[int, float]:
    verdict = row.session.verdict
    if verdict.status == "stopped":
        place = 0 if row.done else 1 if verdict.outcome == "completed" else 2
    else:
        place = 3 if verdict.status != "unknown" else 4
    return place, row.seconds if row.seconds is not None else float("inf")
