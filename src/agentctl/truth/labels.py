"""What our launch notes add to judged sessions: labels, and the exit that our shim recorded. The shim is
the parent of the agent: the process that it waited for has ended, whatever else runs here.

A note makes a row of its own only for a launch that has ended and left no file. A note never makes a
session alive, and never ends a live one.
"""

from __future__ import annotations

from agentctl.errors import Forbidden, Gone
from agentctl.light_typing import TYPE_CHECKING, Iterable, Iterator, Mapping, Sequence
from agentctl.system import proc
from agentctl.system.owner import Owner
from agentctl.truth.judge import judge
from agentctl.truth.launches import is_overtaken
from agentctl.truth.model import Evidence, Exit, Facts, Launch, Observation, Session, Verdict

if TYPE_CHECKING:
    from agentctl.system.proc import ProcessIdentity
    from agentctl.truth.survey import HistoryQuery

ELSEWHERE = "launched in another pid namespace (a container), where its process cannot be seen from here"
UNREAD = "not all files of this agent could be read: another process may have continued this session"


class Labels:
    """Launch notes by identity and by session id."""

    def __init__(self, notes: Sequence[Launch]) -> None:
        self._by_identity: Mapping[ProcessIdentity, Launch] = {n.identity: n for n in notes}
        # by agent, too: two agents may use the same id. An older note names no agent.
        self._by_session = {(n.adapter, n.session_id): n for n in notes if n.session_id}

    def label_session(self, session: Session) -> Session:
        note = self._find_note(session.observation)
        return session if note is None else add_label(session.observation, session.verdict, note)

    def find_sessions_without_file(
        self, sessions: Iterable[Session], query: HistoryQuery, adapters: Mapping[str, bool]
    ) -> Iterator[Session]:
        """Yield the launches that have ended and for which no adapter found a session: the note is the
        only source. `adapters` says of each adapter asked whether it could read all of its files."""
        listed = {(session.observation.adapter, session.observation.session_id) for session in sessions}
        for (adapter, session_id), note in self._by_session.items():
            if adapter is None or adapter not in adapters or (adapter, session_id) in listed:
                continue
            if not (session_id or "").startswith(query.id_prefix):
                continue
            # The file of a launch is no older than the launch. So if this launch is inside the query,
            # the adapter has listed its file, if there is one. An earlier launch may have a file
            # outside it.
            if (note.created_at or 0.0) < query.since:
                continue
            evidence = tuple(_find_end(note))
            if evidence:
                yield _make_session(note, evidence, all_read=adapters[adapter])

    def _find_note(self, observation: Observation) -> Launch | None:
        """Return the note of the owner, if we started the owner for this session: an earlier launch may
        have run the same session. Else the note of the session, else the note of the owner."""
        session_id, owner = observation.session_id, observation.owner
        of_owner = self._by_identity.get(owner.identity) if owner is not None else None
        if of_owner is not None and of_owner.session_id in (None, session_id):
            return of_owner
        by_id = (self._by_session.get((name, session_id or "")) for name in (observation.adapter, None))
        return next((note for note in by_id if note is not None), of_owner)


def add_label(observation: Observation, verdict: Verdict, note: Launch) -> Session:
    """Return this session with what its own note adds."""
    if verdict.status not in ("stopped", "unknown"):
        return Session(observation, verdict, note)
    if note.exit is not None:
        labelled = _add_exit(observation, note, note.exit)
    elif verdict.status == "stopped" and Owner(note.identity, note.namespace).is_foreign:
        # Its absence here proves nothing, and its pid is another process's here.
        hidden = Evidence("hidden", f"launch:{note.id}", "record", note.created_at, note=ELSEWHERE)
        rest = (e._replace(trusted=e.trusted and e.claim != "ended") for e in observation.evidence)
        labelled = observation._replace(evidence=(*rest, hidden))
    else:
        return Session(observation, verdict, note)
    return Session(labelled, judge(labelled.evidence), note)


def _add_exit(observation: Observation, note: Launch, exit_record: Exit) -> Observation:
    """Add the recorded exit. It decides unless the session was written to since. Then an unbound process
    that could run the session is no reason for doubt; `why` still shows it."""
    exited = _exit_evidence(exit_record, observation.facts)
    if not exited.trusted or _may_be_continued(observation, note):
        return observation._replace(evidence=(*observation.evidence, exited))
    rest = (e._replace(trusted=False) if e.claim == "ambiguous" else e for e in observation.evidence)
    evidence = (*rest, _end_evidence(note, exit_record), exited)
    return observation._replace(evidence=evidence, candidates=())


def _may_be_continued(observation: Observation, note: Launch) -> bool:
    """Return whether a later process may have continued the session: its files cannot be read, or name
    an owner that we cannot see, or a process has them open to write. That a process could be out of
    sight is no sign of one, and about the process that we started our shim knows better."""
    if observation.transcript is not None and observation.facts.last_activity_at is None:
        return True
    hidden = [e for e in observation.evidence if e.claim == "hidden" and e.trusted]
    others = [e for e in hidden if e.address.startswith("proc:") and e.address != note.identity.address]
    return bool(others) or any(e.authority in ("record", "journal") for e in hidden)


def _end_evidence(note: Launch, exit_record: Exit) -> Evidence:
    text = f"launch:{note.id}: our shim waited for pid {note.identity.pid}, which has ended"
    return Evidence("ended", exit_record.address, "kernel", exit_record.at, note=text)


def _exit_evidence(exit_record: Exit, facts: Facts) -> Evidence:
    """Return how the process that we started ended. If another process has continued the session since,
    this is how an earlier owner ended, and is not trusted."""
    code = exit_record.code
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    is_continued = is_overtaken(exit_record, facts.last_activity_at)
    return Evidence(
        claim="exited",
        address=exit_record.address,
        authority="record",
        at=exit_record.at,
        note=f"{how}; the session has been written to since" if is_continued else how,
        trusted=not is_continued,
        value=code,
    )


def _find_end(note: Launch) -> Iterator[Evidence]:
    """Yield the proof that a launched process has ended; nothing if it is alive or cannot be seen."""
    try:
        # read again: the process may have ended since the look, with its row
        process = proc.find_process(note.identity)
    except Forbidden:  # hidepid=1
        process = None
    if process is not None and process.is_alive:
        return  # the process has a row. An exit record is then of its wrapper
    if note.exit is not None:
        yield _end_evidence(note, note.exit)
        yield _exit_evidence(note.exit, Facts())
    elif note.identity.boot != proc.read_boot_id() or Owner(note.identity, note.namespace).is_foreign:
        return
    elif process is not None or not _is_hidden(note.identity.pid):
        text = f"launch:{note.id} names it; it does not exist any more, and its exit was not recorded"
        yield Evidence("ended", note.identity.address, "kernel", note=text)


def _is_hidden(pid: int) -> bool:
    """Return whether a process with this pid exists that we may not look at."""
    try:
        proc.read_process(pid, proc.read_boot_id())
    except Gone:
        from agentctl.system.pidfd import is_taken  # rare, and `signal` costs 1 ms

        return is_taken(pid)
    except Forbidden:
        return True
    return False  # another process, and visible


def _make_session(note: Launch, evidence: tuple[Evidence, ...], *, all_read: bool) -> Session:
    if not all_read:
        doubt = Evidence("hidden", f"launch:{note.id}", "derived", note=UNREAD)
        evidence = (doubt, *(piece._replace(trusted=False) for piece in evidence))
    facts = Facts(
        cwd=note.cwd,
        model=note.model,
        prompt=note.prompt,
        started_at=note.created_at,
        last_activity_at=note.exit.at if note.exit is not None else None,
        entry_point="headless",
    )
    observation = Observation(note.adapter or "", note.session_id, evidence, facts)
    return Session(observation, judge(evidence), note)
