"""Fire the timeout of a launch. The shim starts this program when its timer ends, so that a timeout
needs no daemon.

If the fuse was extended, or another process fires it, the shim reads from a file when to start this
program again. If our database was deleted, an extension or a cancellation is lost with it: the agent
ends at the time that the launch set.
"""

from __future__ import annotations

import os
import sys

from agentctl import paths
from agentctl.errors import AgentctlError, Temporary
from agentctl.fuses import fire
from agentctl.launch.finish import log_message
from agentctl.launch.shim import shim
from agentctl.light_typing import Sequence
from agentctl.state import fuses, launches
from agentctl.state.fuses import FAILED, FIRING, SET
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.launches import read_shim_notes
from agentctl.truth.model import Session

SOON = 5.0  # seconds
RECHECK = shim.RECHECK  # seconds: the process that fires the fuse may die without a message to us


def main() -> None:
    """Run `expire STATE LAUNCH`, as the shim starts it."""
    state, launch_id = sys.argv[1:3]
    os.environ["AGENTCTL_HOME"] = state
    notes = paths.database_file(state)
    try:
        seconds = expire_launch(state, launch_id)
    except Temporary:  # a full disk, a busy database: the agent must still end
        seconds = SOON
    except AgentctlError as error:
        log_message(notes, launch_id, "expire", str(error))
        seconds = RECHECK
    if seconds is not None:
        _exit_for_retry(f"{launches.launch_folder(notes, launch_id)}/{shim.AGAIN_FILE}", seconds)


def _exit_for_retry(path: str, seconds: float) -> None:
    """Exit with the code that makes the shim start this program again."""
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{seconds:f}")
    except OSError:  # the folder was deleted, or the disk is full: the shim has a default
        pass
    sys.exit(shim.AGAIN)


def expire_launch(state: str, launch_id: str) -> float | None:
    """Fire the timeout of a launch. Return the seconds after which to try again; None: never. Raises
    SourceError."""
    notes = paths.database_file(state)
    timeout = fuses.find_timeout(notes, launch_id)
    if timeout is None:
        if launches.find_launch(notes, launch_id) is None:
            _end_unknown_launch(notes, launch_id)
        return None  # with a launch note: it was cancelled, and its fuse is deleted by now
    fuse = fire.fire_fuse(state, timeout.id)
    if fuse is not None:
        if fuse.state == FAILED:
            log_message(notes, launch_id, "expire", str(fuse.results[0]))
        return None
    timeout = fuses.find_timeout(notes, launch_id)
    if timeout is None or timeout.state not in (SET, FIRING):
        return None
    return max(1.0, timeout.seconds_left(fuses.read_clocks())) if timeout.state == SET else RECHECK


def _end_unknown_launch(notes: str, launch_id: str) -> None:
    """End the agent of a launch whose launch note is lost. Its shim says which process it is."""
    shims = read_shim_notes(proc.read_table())
    note = next((each for each in shims if each.launch_id == launch_id), None)
    if note is None or proc.find_process(note.identity) is None:
        return
    from agentctl.launch.start import kill_launch
    from agentctl.sessions import query

    live: Sequence[Session] = ()
    try:
        live = query.survey_sessions().sessions
        _stop_by_plan(note.identity, live)
    except Exception as error:  # noqa: BLE001 - the agent must end all the same
        log_message(notes, launch_id, "expire", f"{type(error).__name__}: {error}")
    kill_launch(note.identity, launch_id, live)


def _stop_by_plan(identity: ProcessIdentity, live: Sequence[Session]) -> None:
    """Stop the agent by its adapter's plan. Raises AgentctlError, and any error of another author's
    adapter."""
    from agentctl.stop import plan
    from agentctl.stop.plan import StopJob
    from agentctl.stop.stop import run_job

    owned = (
        s for s in live if s.observation.owner is not None and s.observation.owner.identity == identity
    )
    if (session := next(owned, None)) is not None:
        job = StopJob(session, plan.make_plan(session, live, whole_owner=True), live)
        run_job(job, force=False, timeout=None)
        if job.error is not None:
            raise job.error
