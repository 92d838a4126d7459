"""What our launch notes add to a session that was judged without them: a label, and how a process ended
that is gone anyway. They never create or end a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentctl.truth import procfs
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Session, Verdict

if TYPE_CHECKING:
    from agentctl.truth.model import ProcessIdentity

ELSEWHERE = "launched in another pid namespace (a container), where its process cannot be seen from here"
SAME_MOMENT = 0.05  # seconds between a process's last word and its end, for clocks that are coarse


class Labels:
    """Launch notes by identity and by session id."""

    def __init__(self, notes: Sequence[Launch]) -> None:
        self._by_identity: Mapping[ProcessIdentity, Launch] = {n.identity: n for n in notes}
        # of an id that two agents use, each has its own; an older note names no agent
        self._by_session = {(n.adapter, n.session_id): n for n in notes if n.session_id}

    def session(self, seen: Observation, verdict: Verdict) -> Session:
        note = self._of(seen)
        return Session(seen, verdict) if note is None else labelled(seen, verdict, note)

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
    """This session with what its own note tells."""
    if verdict.status != "stopped":
        return Session(seen, verdict, note)
    if note.ended is not None:
        more = _exited(note.ended, seen.facts)
    elif procfs.elsewhere(note.identity, note.namespace):  # that we do not see it proves nothing
        more = Evidence("hidden", f"launch:{note.id}", "record", note.created_at, note=ELSEWHERE)
    else:
        return Session(seen, verdict, note)
    known = seen._replace(evidence=(*seen.evidence, more))
    return Session(known, judge(known.evidence), note)


def _exited(ended: Exit, facts: Facts) -> Evidence:
    """How the process that we started ended. Somebody else may have gone on with the session since:
    then this is how an earlier owner ended, and not the answer."""
    how = f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
    later = (facts.last_activity_at or 0.0) > ended.at + SAME_MOMENT + ended.clock_back
    note = f"{how}; the session has been written to since" if later else how
    return Evidence(
        "exited", ended.address, "record", ended.at, note=note, trusted=not later, value=ended.code
    )
