"""The end of a launched agent, whole: its process is gone, and how it ended is written down."""

from __future__ import annotations

import os
import time

from agentctl import paths
from agentctl.errors import Gone, SourceError
from agentctl.process.tree import Family
from agentctl.state import launches, remains
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.system.waiter import Watch
from agentctl.truth.model import Exit, Launch

LAST_WORD = 5.0  # seconds a shim may take to write down what it has seen, on a loaded machine


def recorded(launch: Launch, seconds: float | None = None) -> Launch:
    """Wait until the shim has written down how the agent ended; where the shim is dead, do its finishing
    work. The note as it is then. Of an agent whose process may live nothing is. Raises SourceError."""
    state = paths.state_directory(os.environ)
    if state is None:
        return launch
    notes = paths.notes_file(state)
    shim = Family(None, launch.id).shim(proc.read_table())
    if not _may_live(notes, launch.id) and (
        shim is None or not _awaited(notes, launch.id, shim.identity, seconds)
    ):
        from agentctl.launch import finish

        finish.finish(state, launch.id)  # once, whoever comes first
    return launches.noted(notes, launch.id) or launch


def _may_live(notes: str, launch_id: str) -> bool:
    """It may be in another container, and its shim with it; or have gone on to another session."""
    return any(note.may_live for note in remains.recorded(notes) if note.id == launch_id)


def finished(launch: Launch) -> Launch:
    """Wait for the finishing work to be done, hook and all; the note as it is then."""
    state = paths.state_directory(os.environ)
    shim = Family(None, launch.id).shim(proc.read_table())
    try:
        if shim is not None:
            with Handle(shim.identity) as handle:
                handle.wait(None)
    except Gone:
        pass
    try:
        return (launches.noted(paths.notes_file(state), launch.id) if state else None) or launch
    except SourceError:  # what only we knew is gone, and no session with it
        return launch


def written_down(
    notes: str, launch_id: str, seconds: float | None = None, by: Handle | None = None
) -> Exit | None:
    """How it ended, once the shim has written that: it comes a moment after the end. `by`: the shim,
    after whose end nobody writes it any more. None: not in time, or never."""
    deadline = time.monotonic() + (LAST_WORD if seconds is None else seconds)
    try:
        with Watch((), [by] if by is not None else []) as watch:
            watch.add_file(f"{launches.folder(notes, launch_id)}/exit")
            while True:
                over = by is not None and by.wait(0)  # before we look, so that its last word counts
                ended = launches.exit_record(notes, launch_id)
                left = deadline - time.monotonic()
                if ended is not None or over or left <= 0 or not watch.wait(left):
                    return ended
    except SourceError:  # its folder was deleted, or half a record: then it is not known
        return None


def _awaited(notes: str, launch_id: str, shim: ProcessIdentity, seconds: float | None) -> bool:
    """Whether that was the shim's to do, and still is."""
    try:
        with Handle(shim) as handle:
            return written_down(notes, launch_id, seconds, handle) is not None or not handle.wait(0)
    except Gone:  # whatever it had to say is there
        return _known(notes, launch_id)


def _known(notes: str, launch_id: str) -> bool:
    try:
        return launches.exit_record(notes, launch_id) is not None
    except SourceError:  # half a record says nothing
        return False
