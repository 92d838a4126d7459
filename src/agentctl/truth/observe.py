"""From a session's files to an Observation: the steps that all adapters have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentctl.errors import Gone, SourceError
from agentctl.truth import jsonl
from agentctl.truth.bind import Bound
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation
from agentctl.truth.procfs import Process
from agentctl.truth.survey import Wanted

Reader = Callable[[str, Look], Facts]


def living(look: Look, bound: Bound, path: str | None, facts: Facts, *more: Evidence) -> Observation:
    """A session that a live process is bound to, or that several may run."""
    owner = bound.owner
    started = look.started_at(owner) if owner is not None else None
    known = facts._replace(
        cwd=facts.cwd or (owner.cwd if owner is not None else None),
        started_at=facts.started_at if facts.started_at is not None else started,
    )
    evidence = (bound.evidence(started), *more, *said(facts, path))
    unsettled = bound.candidates if owner is None else ()
    return Observation(
        look.adapter, bound.session_id, evidence, known, owner, path, unsettled, bound.address
    )


def ended(
    look: Look,
    session_id: str,
    path: str,
    read: Reader,
    wanted: Wanted,
    *more: Evidence,
    may: Callable[[Process, Facts], bool] | None = None,
) -> Iterator[Observation]:
    """A session on disk that no live process is bound to; nothing if it is older than wanted. `may`
    tells which of the processes without a session may run it, where the adapter knows."""
    try:
        status = look.status(path)
        if status is None or status.st_mtime < wanted.since:
            return
        facts = look.facts(path, status, read)
    except Gone:  # deleted since it was listed
        return
    except SourceError as error:
        look.unreadable(error)
        unread = Evidence("hidden", error.source, "journal", note=f"its transcript: {error.why}")
        yield Observation(look.adapter, session_id, (unread, *more), transcript=path)
        return
    suspect = None if may is None else lambda p: may(p, facts)
    owner = look.unowned(status.st_mtime, suspect, uid=status.st_uid)
    evidence = (*more, owner, *said(facts, path))
    yield Observation(look.adapter, session_id, evidence, facts, None, path)


def facts_or_none(look: Look, path: str | None, read: Reader) -> Facts:
    """What a live session's transcript says; nothing yet if it does not exist, a Problem if it
    cannot be read."""
    if path is None:
        return Facts()
    try:
        facts = look.read(path, read)
    except Gone:
        return Facts()
    except SourceError as error:
        look.unreadable(error)
        return Facts()
    if facts.garbled:
        look.problem("malformed", f"{facts.garbled} records not readable", path)
    return facts


def said(facts: Facts, path: str | None) -> tuple[Evidence, ...]:
    """The journal's word on the last turn, as evidence."""
    if facts.turn is None or path is None:
        return ()
    claim, detail, at, offset, note = facts.turn
    address = path if offset is None else f"{path}@{offset}"
    return (Evidence(claim, address, "journal", at, detail, note),)


def transcript(seen: Observation, look: Look) -> Iterator[tuple[int, jsonl.Record]]:
    """(offset, record) of a session's transcript, newest first, read only as far as asked; what
    could not be read becomes a Problem."""
    if seen.transcript is None:
        return
    tally = jsonl.Tally()
    try:
        yield from jsonl.backwards(seen.transcript, tally)
    except Gone:
        return  # a session that has not written yet
    except SourceError as error:
        look.unreadable(error)
    if tally:
        look.problem("malformed", str(tally), seen.transcript)
