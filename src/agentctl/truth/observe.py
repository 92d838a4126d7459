"""From a session's files to an Observation: the steps that all adapters have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentctl.errors import Gone, SourceError
from agentctl.system import files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.bind import Bound
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Turn
from agentctl.truth.survey import Wanted

Reader = Callable[[str, Look], Facts]
# Seconds for which a wait that we derive must have held before it is claimed. While an agent begins a
# tool, its files look for some 50 to 150 ms as if it asked a person: no look can tell the two apart
# (docs/adr/0014-a-derived-wait-must-hold.md).
SETTLED_AFTER = 1.0
UNSETTLED = "has not held for a second yet"
TORN = "; the line after it is not complete"


def living(look: Look, bound: Bound, path: str | None, facts: Facts, *more: Evidence) -> Observation:
    """A session that a live process is bound to, or that several may run."""
    owner = bound.owner
    started = look.started_at(owner) if owner is not None else None
    known = facts._replace(
        cwd=facts.cwd or (owner.cwd if owner is not None else None),
        started_at=facts.started_at if facts.started_at is not None else started,
    )
    evidence = (bound.evidence(started), *more, *_said_of_living(facts, path))
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
    owner = look.unowned(
        status.st_mtime,
        suspect,
        path=path,
        uid=status.st_uid,
        began=facts.started_at,
        turn_open=facts.turn is not None and facts.turn.claim != "idle",
    )
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
    report_torn(look, facts, path)
    return facts


def unless_prompted(piece: Evidence, since: float) -> Evidence:
    """What the journal says of a turn, where the process has its prompt from the start. A turn that was
    over before `since` is not its own: the process is about to begin one, and is not idle."""
    if piece.claim != "idle" or (piece.at is not None and piece.at >= since):
        return piece
    note = f"{piece.note}; it has its prompt, and has not begun its own turn yet"
    return piece._replace(note=note, trusted=False)


def torn(turn: Turn | None, piece: files.Piece) -> Turn | None:
    """The last turn as a file tells it whose last line may be incomplete: that line may say what the
    session is doing now, and nobody can read it."""
    if turn is None or not piece.data or piece.data.endswith(b"\n"):
        return turn
    return turn._replace(note=f"{turn.note}{TORN}")


def report_torn(look: Look, facts: Facts, path: str) -> None:
    """A Problem, if the line is not merely being written: that takes a moment."""
    if facts.turn is None or not facts.turn.note.endswith(TORN):
        return
    status = look.status(path)
    if status is not None and look.now - status.st_mtime >= SETTLED_AFTER:
        look.problem("malformed", "its last line is not complete", path)


def _said_of_living(facts: Facts, path: str | None) -> tuple[Evidence, ...]:
    """Not trusted while a line follows that cannot be read. Of an ended one it stands: whoever was
    killed while it wrote has not closed its turn."""
    whole = facts.turn is None or not facts.turn.note.endswith(TORN)
    return tuple(piece._replace(trusted=whole) for piece in said(facts, path))


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


def settled(wait: Evidence, now: float) -> Evidence:
    """A derived wait as it counts now: not trusted in its first second, in which nobody can say whether
    it waits or works. `at` tells since when it may hold. What the agent itself publishes counts at once.
    """
    if wait.authority != "derived" or wait.claim != "waiting" or not wait.trusted:
        return wait
    if wait.at is not None and now - wait.at >= SETTLED_AFTER:
        return wait
    return wait._replace(note=f"{wait.note}; {UNSETTLED}", trusted=False)


def settles_at(seen: Observation) -> float | None:
    """When what is too young to be believed in it will have held long enough; None: nothing is."""
    young = (e.at for e in seen.evidence if e.note.endswith(UNSETTLED))
    return max((at + SETTLED_AFTER for at in young if at is not None), default=None)
