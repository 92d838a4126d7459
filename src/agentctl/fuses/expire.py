"""The time of a launch may be over: asks its fuse, and fires it. The shim starts this as a process of
its own when its timer rings, so that a timeout needs no daemon.

Where the fuse was extended, or another process fires it, the shim is told when to ask again. Where our
notes were deleted, nobody can tell that it was extended or cancelled: it is over when the launch said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from agentctl import paths
from agentctl.errors import AgentctlError, Passing
from agentctl.fuses import fire
from agentctl.launch.finish import leave_word
from agentctl.launch.shim import shim
from agentctl.state import fuse as clocks
from agentctl.state import fuses, launches
from agentctl.state.fuse import BURNING, FAILED, FIRING
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.launched import carriers
from agentctl.truth.model import Session

SOON = 5.0  # seconds
RECHECK = shim.RECHECK  # seconds: whoever fires it may die of it, and nobody tells us


def main() -> None:
    """`expire STATE LAUNCH`, as the shim calls it."""
    state, launch_id = sys.argv[1:3]
    os.environ["AGENTCTL_HOME"] = state
    notes = paths.notes_file(state)
    try:
        left = expire(state, launch_id)
    except Passing:  # a full disk, a busy database: the agent is still to be ended
        left = SOON
    except AgentctlError as error:
        leave_word(notes, launch_id, "expire", str(error))
        left = RECHECK
    if left is not None:
        _ask_again(f"{launches.folder(notes, launch_id)}/{shim.AGAIN_FILE}", left)


def _ask_again(file: str, seconds: float) -> None:
    try:
        with open(file, "w", encoding="ascii") as told:
            told.write(f"{seconds:f}")
    except OSError:  # the folder was deleted, or the disk is full: then the shim knows when
        pass
    sys.exit(shim.AGAIN)


def expire(state: str, launch_id: str) -> float | None:
    """Seconds after which to ask again; None: never. Raises SourceError."""
    notes = paths.notes_file(state)
    found = fuses.timeout_of(notes, launch_id)
    if found is None:
        if launches.noted(notes, launch_id) is None:
            _end_unnoted(notes, launch_id)
        return None  # or it was cancelled so long ago that it is forgotten
    done = fire.fire(state, found.id)
    if done is not None:
        if done.state == FAILED:
            leave_word(notes, launch_id, "expire", str(done.results[0]))
        return None
    now = fuses.timeout_of(notes, launch_id)
    if now is None or now.state not in (BURNING, FIRING):
        return None
    return max(1.0, now.left(clocks.now())) if now.state == BURNING else RECHECK


def _end_unnoted(notes: str, launch_id: str) -> None:
    """Ends the agent of a launch whose note is lost, if it lives: its shim tells which process it is."""
    told = next((each for each in carriers(proc.read_table()) if each.launch_id == launch_id), None)
    if told is None or proc.current(told.identity) is None:
        return
    from agentctl.launch.start import end
    from agentctl.sessions import query

    live: Sequence[Session] = ()
    try:
        live = query.everything().sessions
        _stop(told.identity, live)
    except Exception as error:  # noqa: BLE001 - whatever it was: it is to end all the same
        leave_word(notes, launch_id, "expire", f"{type(error).__name__}: {error}")
    end(told.identity, launch_id, live)


def _stop(identity: ProcessIdentity, live: Sequence[Session]) -> None:
    """By the signals that its agent knows. Raises AgentctlError, and whatever a third party's adapter
    does."""
    from agentctl.stop import plan
    from agentctl.stop.several import Job

    meant = (s for s in live if s.seen.owner is not None and s.seen.owner.identity == identity)
    if (session := next(meant, None)) is not None:
        job = Job(session, plan.plan(session, live, whole_owner=True), live)
        job.run(force=False, timeout=None)
        if job.error is not None:
            raise job.error
