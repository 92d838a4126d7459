"""What our launch notes add to sessions that were judged without them: labels, and the end that our shim
recorded. The shim is the parent of the agent: what it waited for has ended, whatever else runs here.

A note makes a row of its own only for a launch that has ended and left no file behind. It never makes a
live session, and never ends one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agentctl.errors import Forbidden, Gone
from agentctl.system import proc
from agentctl.truth.judge import judge
from agentctl.truth.launched import overtaken
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Session, Verdict

if TYPE_CHECKING:
    from agentctl.system.identity import ProcessIdentity
    from agentctl.truth.survey import Wanted

ELSEWHERE = "launched in another pid namespace (a container), where its process cannot be seen from here"
UNREAD = "not all files of this agent could be read: another process may have continued this session"


class Labels:
    """Launch notes by identity and by session id."""

    def __init__(self, notes: Sequence[Launch]) -> None:
        self._by_identity: Mapping[ProcessIdentity, Launch] = {n.identity: n for n in notes}
        # of an id that two agents use, each has its own; an older note names no agent
        self._by_session = {(n.adapter, n.session_id): n for n in notes if n.session_id}

    def session(self, seen: Observation, verdict: Verdict) -> Session:
        note = self._of(seen)
        return Session(seen, verdict) if note is None else labelled(seen, verdict, note)

    def left_no_file(
        self, found: Iterable[Session], wanted: Wanted, adapters: Mapping[str, bool]
    ) -> Iterator[Session]:
        """Launches that have ended and that no adapter found a session of: the note is all there is.
        `adapters`: those that were asked, and whether each could read all of its files."""
        listed = {(session.seen.adapter, session.seen.session_id) for session in found}
        for (adapter, session_id), note in self._by_session.items():
            if adapter is None or adapter not in adapters or (adapter, session_id) in listed:
                continue
            if not (session_id or "").startswith(wanted.id_prefix):
                continue
            # A file of this launch is no older than the launch. So of a later launch the adapter has
            # listed the file, if there is one; an earlier one may have a file that nobody wanted.
            if (note.created_at or 0.0) < wanted.since:
                continue
            evidence = tuple(_end_without_file(note))
            if evidence:
                yield _row(note, evidence, all_read=adapters[adapter])

    def _of(self, seen: Observation) -> Launch | None:
        """Of the process that runs it, if that was started for this session: an earlier launch may
        have been of the same one. Else of the session, else of the process."""
        session_id = seen.session_id
        started = self._by_identity.get(seen.owner.identity) if seen.owner is not None else None
        if started is not None and started.session_id in (None, session_id):
            return started
        by_id = (self._by_session.get((name, session_id or "")) for name in (seen.adapter, None))
        return next((note for note in by_id if note is not None), started)


def labelled(seen: Observation, verdict: Verdict, note: Launch) -> Session:
    """This session with what its own note adds."""
    if verdict.status not in ("stopped", "unknown"):
        return Session(seen, verdict, note)
    if note.ended is not None:
        known = _with_end(seen, note, note.ended)
    elif verdict.status == "stopped" and proc.elsewhere(note.identity, note.namespace):
        # that we do not see it proves nothing, and its number is another process's here
        hidden = Evidence("hidden", f"launch:{note.id}", "record", note.created_at, note=ELSEWHERE)
        rest = (e._replace(trusted=e.trusted and e.claim != "ended") for e in seen.evidence)
        known = seen._replace(evidence=(*rest, hidden))
    else:
        return Session(seen, verdict, note)
    return Session(known, judge(known.evidence), note)


def _with_end(seen: Observation, note: Launch, ended: Exit) -> Observation:
    """The recorded end decides as long as nobody wrote to the session since. Then a process that merely
    could run it, because it is bound to no session, is no reason for doubt; `why` still shows it."""
    exited = _exited(ended, seen.facts)
    if not exited.trusted or _may_have_been_continued(seen, note):
        return seen._replace(evidence=(*seen.evidence, exited))
    evidence = tuple(e._replace(trusted=False) if e.claim == "ambiguous" else e for e in seen.evidence)
    return seen._replace(evidence=(*evidence, _ended(note, ended), exited), candidates=())


def _may_have_been_continued(seen: Observation, note: Launch) -> bool:
    """Whether its files cannot be read, or name an owner that we cannot see, or somebody has them open
    to write: it may be a later one. That somebody could be out of sight is no sign of one, and of the
    process that we started our shim knows better."""
    if seen.transcript is not None and seen.facts.last_activity_at is None:
        return True
    hidden = [e for e in seen.evidence if e.claim == "hidden" and e.trusted]
    others = [e for e in hidden if e.address.startswith("proc:") and e.address != note.identity.address]
    return bool(others) or any(e.authority in ("record", "journal") for e in hidden)


def _ended(note: Launch, ended: Exit) -> Evidence:
    told = f"launch:{note.id}: our shim waited for pid {note.identity.pid}, which has ended"
    return Evidence("ended", ended.address, "kernel", ended.at, note=told)


def _exited(ended: Exit, facts: Facts) -> Evidence:
    """How the process that we started ended. Somebody else may have gone on with the session since:
    then this is how an earlier owner ended, and not the answer."""
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    later = overtaken(ended, facts.last_activity_at)
    note = f"{how}; the session has been written to since" if later else how
    return Evidence(
        "exited", ended.address, "record", ended.at, note=note, trusted=not later, value=ended.code
    )


def _end_without_file(note: Launch) -> Iterator[Evidence]:
    """Proof that a launched process has ended; nothing where it lives, or where we cannot look."""
    try:
        process = proc.current(note.identity)  # now: it may have ended since the look, its row with it
    except Forbidden:  # hidepid=1
        process = None
    if process is not None and process.alive:
        return  # it is listed by its process. What ended may have been a wrapper of it
    if note.ended is not None:
        yield _ended(note, note.ended)
        yield _exited(note.ended, Facts())
    elif note.identity.boot != proc.boot_id() or proc.elsewhere(note.identity, note.namespace):
        return
    elif process is not None or not _is_hidden(note.identity.pid):
        told = f"launch:{note.id} names it; it does not exist any more, and nobody recorded how it ended"
        yield Evidence("ended", note.identity.address, "kernel", note=told)


def _is_hidden(pid: int) -> bool:
    """Whether some process has this number and may not be looked at."""
    try:
        proc.read_process(pid, proc.boot_id())
    except Gone:
        from agentctl.system.pidfd import is_taken  # rare, and `signal` costs 1 ms

        return is_taken(pid)
    except Forbidden:
        return True
    return False  # another one, for all to see


def _row(note: Launch, evidence: tuple[Evidence, ...], *, all_read: bool) -> Session:
    if not all_read:
        doubt = Evidence("hidden", f"launch:{note.id}", "derived", note=UNREAD)
        evidence = (doubt, *(piece._replace(trusted=False) for piece in evidence))
    facts = Facts(
        cwd=note.cwd,
        model=note.model,
        prompt=note.prompt,
        started_at=note.created_at,
        last_activity_at=note.ended.at if note.ended is not None else None,
        entry_point="headless",
    )
    seen = Observation(note.adapter or "", note.session_id, evidence, facts)
    return Session(seen, judge(evidence), note)
