"""Wait for the exit record of a launched agent, and for its finishing work."""

from __future__ import annotations

import os
import time

from agentctl import paths
from agentctl.errors import Gone, SourceError
from agentctl.process.tree import ProcessFamily
from agentctl.state import launches
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from agentctl.system.waiter import Watch
from agentctl.truth.model import Exit, Launch

LAST_WORD = 5.0  # seconds that a shim may take to write the exit record, on a loaded machine


def await_exit(launch: Launch, seconds: float | None = None) -> Launch:
    """Return the launch note with the exit record, once the shim has written it. If the shim is dead, do
    its finishing work. An agent that may be alive gets none. Raises SourceError."""
    state = paths.state_directory(os.environ)
    if state is None:
        return launch
    notes = paths.database_file(state)
    shim = ProcessFamily(None, launch.id).find_shim(proc.read_table())
    if not _may_live(notes, launch.id) and (
        shim is None or not _await_shim(notes, launch.id, shim.identity, seconds)
    ):
        from agentctl.launch import finish

        finish.finish_launch(state, launch.id)  # does nothing if it is done already
    return launches.find_launch(notes, launch.id) or launch


def _may_live(notes: str, launch_id: str) -> bool:
    """Return True for an agent in another container, and for one that runs another session now."""
    return any(row.may_live for row in launches.read_launch_rows(notes) if row.id == launch_id)


def await_finish(launch: Launch) -> Launch:
    """Return the launch note after the finishing work, on-complete hook included."""
    state = paths.state_directory(os.environ)
    shim = ProcessFamily(None, launch.id).find_shim(proc.read_table())
    try:
        if shim is not None:
            with Handle(shim.identity) as handle:
                handle.wait(None)
    except Gone:
        pass
    try:
        return (launches.find_launch(paths.database_file(state), launch.id) if state else None) or launch
    except SourceError:  # our database is gone; the session is not
        return launch


def await_record(
    notes: str, launch_id: str, seconds: float | None = None, shim: Handle | None = None
) -> Exit | None:
    """Return the exit record, which the shim writes a moment after the end. None: not in time, or the
    shim has ended without one."""
    deadline = time.monotonic() + (LAST_WORD if seconds is None else seconds)
    try:
        with Watch((), [shim] if shim is not None else []) as watch:
            watch.add_file(f"{launches.launch_folder(notes, launch_id)}/exit")
            while True:
                shim_ended = shim is not None and shim.wait(0)  # before reading: its last write counts
                record = launches.read_exit_record(notes, launch_id)
                remaining = deadline - time.monotonic()
                if record is not None or shim_ended or remaining <= 0 or not watch.wait(remaining):
                    return record
    except SourceError:  # the folder was deleted, or the record is incomplete
        return None


def _await_shim(notes: str, launch_id: str, shim: ProcessIdentity, seconds: float | None) -> bool:
    """Return True if the finishing work is the shim's: it has written the record, or is still alive."""
    try:
        with Handle(shim) as handle:
            return await_record(notes, launch_id, seconds, handle) is not None or not handle.wait(0)
    except Gone:
        return _has_record(notes, launch_id)


def _has_record(notes: str, launch_id: str) -> bool:
    try:
        return launches.read_exit_record(notes, launch_id) is not None
    except SourceError:  # an incomplete record says nothing
        return False
