"""From a session's files to an Observation: the steps that all adapters share."""

from __future__ import annotations

from agentctl.errors import Gone, SourceError
from agentctl.light_typing import Callable, Iterator
from agentctl.system import files, jsonl
from agentctl.system.proc import Process
from agentctl.truth.bind import Binding
from agentctl.truth.look import Look
from agentctl.truth.model import Evidence, Facts, Observation, Turn
from agentctl.truth.survey import HistoryQuery

Reader = Callable[[str, Look], Facts]
# Seconds that a derived wait must hold before we trust it. While an agent starts a tool, its files look
# for 50 to 150 ms as if it asked the user, and no look can tell the two apart
# (docs/adr/0014-a-derived-wait-must-hold.md).
SETTLED_AFTER = 1.0
UNSETTLED = "has not held for a second yet"
TORN = "; the line after it is not complete"


def observe_live(
    look: Look, bound: Binding, path: str | None, facts: Facts, *more: Evidence
) -> Observation:
    """Return a session that a live process is bound to, or that several may run."""
    owner = bound.owner
    started = look.find_start_time(owner) if owner is not None else None
    if not facts.cwd or facts.started_at is None:  # else there is nothing to complete
        facts = facts._replace(
            cwd=facts.cwd or (owner.cwd if owner is not None else None),
            started_at=facts.started_at if facts.started_at is not None else started,
        )
    evidence = (bound.to_evidence(started), *more, *_live_turn_evidence(facts, path))
    return Observation(
        adapter=look.adapter,
        session_id=bound.session_id,
        evidence=evidence,
        facts=facts,
        owner=owner,
        transcript=path,
        candidates=bound.candidates if owner is None else (),
        owner_source=bound.address,
    )


def observe_ended(
    look: Look,
    session_id: str,
    path: str,
    read: Reader,
    query: HistoryQuery,
    *more: Evidence,
    may: Callable[[Process, Facts], bool] | None = None,
) -> Iterator[Observation]:
    """Yield a session on disk that no live process is bound to; nothing if the query excludes it. `may`
    says which of the unbound processes may run it, if the adapter knows."""
    try:
        status = look.stat(path)
        if status is None or status.st_mtime < query.since:
            return
        facts = look.read_facts(path, status, read)
    except Gone:  # the file was deleted since the directory was listed
        return
    except SourceError as error:
        look.report_unreadable(error)
        unread = Evidence("hidden", error.source, "journal", note=f"its transcript: {error.why}")
        yield Observation(look.adapter, session_id, (unread, *more), transcript=path)
        return
    may_run = None if may is None else lambda process: may(process, facts)
    owner = look.find_evidence_without_owner(
        status.st_mtime,
        may_run,
        path=path,
        uid=status.st_uid,
        began=facts.started_at,
        turn_open=facts.turn is not None and facts.turn.claim != "idle",
    )
    evidence = (*more, owner, *make_turn_evidence(facts, path))
    yield Observation(look.adapter, session_id, evidence, facts, None, path)


def read_live_facts(look: Look, path: str | None, read: Reader) -> Facts:
    """Return what a live session's transcript says: no facts if it does not exist yet. An error is a
    Problem, and no facts."""
    if path is None:
        return Facts()
    try:
        facts = look.read_file(path, read)
    except Gone:
        return Facts()
    except SourceError as error:
        look.report_unreadable(error)
        return Facts()
    if facts.garbled:
        look.report_problem("malformed", f"{facts.garbled} records not readable", path)
    report_torn(look, facts, path)
    return facts


def discount_earlier_turn(piece: Evidence, since: float) -> Evidence:
    """Return the evidence on a turn, for a process that was started with its prompt. A turn that was
    over before `since` is not this process's own: it is about to begin one, and is not idle."""
    if piece.claim != "idle" or (piece.at is not None and piece.at >= since):
        return piece
    note = f"{piece.note}; it has its prompt, and has not begun its own turn yet"
    return piece._replace(note=note, trusted=False)


def is_left_open(turn: Turn | None, since: float) -> bool:
    """Return whether an earlier owner left this turn open: it was written before `since`, when the owner
    took the session up. An owner that resumes a session waits for a prompt, and does not continue the
    turn of a dead process."""
    return turn is not None and turn.claim != "idle" and turn.at is not None and turn.at < since


def mark_torn(turn: Turn | None, piece: files.Piece) -> Turn | None:
    """Return the last turn, marked if the last line of the file is incomplete: that line may say what
    the session is doing now, and cannot be read yet."""
    if turn is None or not piece.data or piece.data.endswith(b"\n"):
        return turn
    return turn._replace(note=f"{turn.note}{TORN}")


def report_torn(look: Look, facts: Facts, path: str) -> None:
    """Report an incomplete last line, unless it is so young that the agent may be writing it now."""
    if facts.turn is None or not facts.turn.note.endswith(TORN):
        return
    status = look.stat(path)
    if status is not None and look.now - status.st_mtime >= SETTLED_AFTER:
        look.report_problem("malformed", "its last line is not complete", path)


def _live_turn_evidence(facts: Facts, path: str | None) -> tuple[Evidence, ...]:
    """Distrust a live session's last turn while an incomplete line follows it. For an ended session the
    turn counts: a process that was killed while it wrote has not closed its turn."""
    pieces = make_turn_evidence(facts, path)
    if facts.turn is None or not facts.turn.note.endswith(TORN):
        return pieces
    return tuple(piece._replace(trusted=False) for piece in pieces)


def make_turn_evidence(facts: Facts, path: str | None) -> tuple[Evidence, ...]:
    """Return what the transcript says about the last turn, as evidence."""
    if facts.turn is None or path is None:
        return ()
    claim, detail, at, offset, note = facts.turn
    address = path if offset is None else f"{path}@{offset}"
    return (Evidence(claim, address, "journal", at, detail, note),)


def read_transcript(observation: Observation, look: Look) -> Iterator[tuple[int, jsonl.Record]]:
    """Yield (offset, record) of a session's transcript, newest first, and read no further than the
    caller goes. An error is a Problem."""
    path = observation.transcript
    if path is None:
        return
    skipped = jsonl.SkippedLines()
    try:
        yield from jsonl.read_backwards(path, skipped)
    except Gone:  # the session has not written yet
        return
    except SourceError as error:
        look.report_unreadable(error)
    if skipped:
        look.report_problem("malformed", str(skipped), path)


def settle_wait(wait: Evidence, now: float) -> Evidence:
    """Return a derived wait as it counts now: not trusted in its first second, while the session may as
    well be working. `at` is when it began. A wait that the agent itself publishes counts at once."""
    if wait.authority != "derived" or wait.claim != "waiting" or not wait.trusted:
        return wait
    if wait.at is not None and now - wait.at >= SETTLED_AFTER:
        return wait
    return wait._replace(note=f"{wait.note}; {UNSETTLED}", trusted=False)


def find_settle_time(observation: Observation) -> float | None:
    """Return when the youngest derived wait will be old enough to trust; None: there is none."""
    young = (e.at for e in observation.evidence if e.note.endswith(UNSETTLED))
    return max((at + SETTLED_AFTER for at in young if at is not None), default=None)
