"""Whether a session may be ended by ending its process, and by which plan."""

from __future__ import annotations

import os
from collections.abc import Iterable

from agentctl.adapters.plans import StopPlan
from agentctl.adapters.registry import load
from agentctl.errors import Gone, Refused, Unreachable
from agentctl.system.proc import Process
from agentctl.truth.model import Session

NAMED = 5  # other sessions in a message


def plan(session: Session, among: Iterable[Session], *, whole_owner: bool = False) -> StopPlan:
    """`among`: every live session. `whole_owner`: its process may go with all that it runs. Raises
    Refused, or Unreachable where nobody can tell which process it is."""
    owner = session.seen.owner
    if session.verdict.status == "unknown":
        raise _unclear(session)
    if owner is None:
        return StopPlan()  # it has ended
    _check_user(owner)
    found = load(session.seen.adapter).stop_plan(session.seen)
    others = sharing(session, among)
    # A server may go, if that is what is wanted. What a supervisor starts again would only come back.
    server = (
        bool(others) or session.seen.facts.entry_point == "daemon" or session.seen.session_id is None
    )
    if found.refusal and not (server and whole_owner):
        raise Refused(found.refusal, found.instead + (f"; {_or_all(owner, others)}" if server else ""))
    if not whole_owner:
        _check_shared(session, owner, others)
    return found._replace(signals=found.signals or StopPlan().signals)


def sharing(session: Session, among: Iterable[Session]) -> list[Session]:
    """Other sessions that would end with it. Those it has spawned are its own."""
    owner, own = session.seen.owner, {session.seen.session_id}
    if owner is None:
        return []
    with_it = [s for s in among if s.seen.owner is not None and s.seen.owner.identity == owner.identity]
    found = 0
    while found != len(own):  # and those that they have spawned
        found = len(own)
        own |= {s.seen.session_id for s in with_it if s.seen.facts.parent_id in own - {None}}
    return [s for s in with_it if s.seen.session_id not in own]


def _check_user(owner: Process) -> None:
    try:
        uid = owner.uid
    except Gone:
        return  # it has ended since: there is nothing to refuse
    if uid != os.geteuid():
        raise Refused(
            f"pid {owner.pid} is another user's process (uid {uid})",
            f"only that user may stop it: sudo -u '#{uid}' agentctl stop pid:{owner.pid}",
        )


def _check_shared(session: Session, owner: Process, others: list[Session]) -> None:
    if not others and session.seen.facts.entry_point != "daemon":
        return
    ids = [s.seen.session_id or "?" for s in others[:NAMED]]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    what = f"also runs {', '.join(ids)}{more}" if others else "is a server, not this session's alone"
    raise Refused(
        f"pid {owner.pid} {what}",
        f"end the session by {session.seen.adapter}'s own means; {_or_all(owner, others)}",
    )


def _or_all(owner: Process, others: list[Session]) -> str:
    return f"--owner ends pid {owner.pid}" + (" and all that it runs" if others else "")


def _unclear(session: Session) -> Unreachable:
    candidates = [f"pid:{process.pid}" for process in session.seen.candidates]
    hint = (
        f"if you know which it is: agentctl stop {' or '.join(candidates)}"
        if candidates
        else "agentctl why tells what is known"
    )
    return Unreachable(f"cannot tell which process runs it: {session.verdict.reason}", hint)
