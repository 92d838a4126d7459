"""A session that no file tells of: what the kernel says of its process, that it has ended or that it
lives on, is all there is."""

from __future__ import annotations

from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session

WATCHED = "it ended while we watched it"
UNWATCHED = "this process does not exist any more"


def gone(session: Session, owner: ProcessIdentity, handle: Handle | None) -> Session:
    """A process that never had a session, or whose session left no file. Without a handle, it ended
    before we had one."""
    address, code = owner.address, handle.exit_code() if handle is not None else None
    note = WATCHED if handle is not None else UNWATCHED
    evidence = [Evidence("ended", address, "kernel", note=note)]
    if code is not None:
        evidence.append(Evidence("exited", address, "kernel", value=code))
    seen = session.seen._replace(owner=None, evidence=(*evidence, *_said(session)))
    return session._replace(seen=seen, verdict=judge(seen.evidence))


def out_of_sight(session: Session, owner: ProcessIdentity) -> Session:
    """Its process lives, and shows it no more: its file was deleted or emptied, or cannot be read."""
    note = "its process is alive, and no source shows this session any more"
    hidden = Evidence("hidden", owner.address, "kernel", note=note)
    seen = session.seen._replace(owner=None, evidence=(hidden, *_said(session)))
    return session._replace(seen=seen, verdict=judge(seen.evidence))


def _said(session: Session) -> list[Evidence]:
    """What was true when we last looked: how it went on until its end, it does not tell."""
    kept = (piece for piece in session.seen.evidence if piece.claim not in ("alive", "ended", "gone"))
    return [piece._replace(trusted=False) for piece in kept]


def nothing_left(adapter: str, subject: str, process: ProcessIdentity) -> Session:
    """One that was told of by who watched before us, and of which neither file nor process is left."""
    evidence = (Evidence("alive", process.address, "kernel", trusted=False),)
    named = None if subject.startswith("proc:") else subject
    return Session(Observation(adapter, named, evidence), judge(evidence))
