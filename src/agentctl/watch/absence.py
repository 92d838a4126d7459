"""A session that no file shows: only the kernel says whether its process has ended or lives on."""

from __future__ import annotations

from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.judge import judge
from agentctl.truth.model import Evidence, Observation, Session

WATCHED = "it ended while we watched it"
UNWATCHED = "this process does not exist any more"
HIDDEN = "its process is alive, and no source shows this session any more"


def ended_session(session: Session, owner: ProcessIdentity, handle: Handle | None) -> Session:
    """Return the session as ended with its process. Without a handle the process ended before we could
    open one, and its exit code is unknown."""
    address, code = owner.address, handle.exit_code() if handle is not None else None
    evidence = [Evidence("ended", address, "kernel", note=WATCHED if handle is not None else UNWATCHED)]
    if code is not None:
        evidence.append(Evidence("exited", address, "kernel", value=code))
    return _judge_again(session, evidence)


def hidden_session(session: Session, owner: ProcessIdentity) -> Session:
    """Return the session as hidden: its process lives, and its file was deleted or cannot be read."""
    return _judge_again(session, [Evidence("hidden", owner.address, "kernel", note=HIDDEN)])


def lost_session(adapter: str, subject: str, process: ProcessIdentity) -> Session:
    """Return a session that an earlier observer reported, and that left neither file nor process."""
    evidence = (Evidence("alive", process.address, "kernel", trusted=False),)
    session_id = None if subject.startswith("proc:") else subject
    return Session(Observation(adapter, session_id, evidence), judge(evidence))


def _judge_again(session: Session, evidence: list[Evidence]) -> Session:
    """Return the session with this evidence. The evidence of the last look stays, untrusted: it does not
    say what the session did afterwards."""
    old = [e for e in session.observation.evidence if e.claim not in ("alive", "ended", "gone")]
    untrusted = (piece._replace(trusted=False) for piece in old)
    observation = session.observation._replace(owner=None, evidence=(*evidence, *untrusted))
    return session._replace(observation=observation, verdict=judge(observation.evidence))
