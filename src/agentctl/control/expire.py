"""The time of a launch may be over: asks its fuse, and fires it. The shim starts this as a process of
its own when its timer rings, so that a timeout needs no daemon.

Where the fuse was extended, or another process fires it, the shim is told when to ask again.
"""

from __future__ import annotations

import os
import sys

from agentctl import paths
from agentctl.control import fuse, shim
from agentctl.control.finish import leave_word
from agentctl.errors import AgentctlError, Passing
from agentctl.store import fuses, launches
from agentctl.truth import fuse as clocks
from agentctl.truth.fuse import BURNING, FAILED, FIRING

SOON = 5.0  # seconds
RECHECK = 60.0  # seconds: whoever fires it may die of it, and nobody tells us


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
    except OSError:  # the folder was deleted, or the disk is full: the daemon is left
        return
    sys.exit(shim.AGAIN)


def expire(state: str, launch_id: str) -> float | None:
    """Seconds after which to ask again; None: never. Raises SourceError."""
    notes = paths.notes_file(state)
    found = fuses.timeout_of(notes, launch_id)
    if found is None:  # our state was deleted, and the timeout with it
        return None
    done = fuse.fire(state, found.id)
    if done is not None:
        if done.state == FAILED:
            leave_word(notes, launch_id, "expire", str(done.results[0]))
        return None
    now = fuses.timeout_of(notes, launch_id)
    if now is None or now.state not in (BURNING, FIRING):
        return None
    return max(1.0, now.left(clocks.now())) if now.state == BURNING else RECHECK
