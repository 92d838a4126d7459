"""The time of a launch is over: end it as `stop` would. The shim starts this as a process of its own."""

from __future__ import annotations

import os
import sys

from agentctl import asking, paths
from agentctl.control import stoppable
from agentctl.control.finish import leave_word
from agentctl.control.stop import stop
from agentctl.errors import AgentctlError
from agentctl.store import launches, ledger
from agentctl.truth.model import Launch, Session


def main() -> None:
    """`expire STATE LAUNCH`, as the shim calls it."""
    state, launch_id = sys.argv[1:3]
    os.environ["AGENTCTL_HOME"] = state
    try:
        expire(state, launch_id)
    except AgentctlError as error:
        leave_word(paths.notes_file(state), launch_id, "expire", str(error))


def expire(state: str, launch_id: str) -> None:
    """Raises Refused or Unreachable where `stop` would."""
    notes = paths.notes_file(state)
    note = launches.noted(notes, launch_id)
    found = asking.everything().sessions
    session = next((s for s in found if note is not None and _is(s, note)), None)
    if session is None:  # it has ended by itself, or our state was deleted and the timeout with it
        return
    plan = stoppable.plan(session, found, whole_owner=True)
    ledger.expired(notes, launch_id)
    stop(session, plan, found)


def _is(session: Session, note: Launch) -> bool:
    owner = session.seen.owner
    return owner is not None and (
        owner.identity == note.identity or (session.launch is not None and session.launch.id == note.id)
    )
