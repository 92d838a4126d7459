"""The finishing work of a launch: record the end of the agent, run the on-complete hook.

The shim becomes this program when its agent has ended. If the shim was killed, `stop` and `prune` do the
work. The first one does it, the others find it done. On a full disk this program retries: no other
process will do the work.
"""

from __future__ import annotations

import os
import sys
import time

from agentctl import paths
from agentctl.adapters.plans import LaunchRequest
from agentctl.adapters.registry import load
from agentctl.errors import Gone, SourceError, Temporary
from agentctl.launch import folder, hooks
from agentctl.light_typing import Callable, Protocol, TypeVar
from agentctl.sessions import query
from agentctl.state import launch_writes, launches
from agentctl.system import proc, this_process
from agentctl.system.pidfd import Handle
from agentctl.system.program import SHIM
from agentctl.truth.launches import ShimNote, read_shim_note
from agentctl.truth.model import Exit, HookRun, Launch, Session
from agentctl.truth.survey import HistoryQuery

T = TypeVar("T")
PAUSES = 0.5, 60.0  # seconds between two tries, the first and the longest
LASTS = 86400.0  # seconds to retry for
DOUBT = 4.0  # seconds that the verdict on an ended session may be unknown
BEAT = 0.2  # seconds between two looks meanwhile


def main() -> None:
    """Run `finish STATE LAUNCH`, as the shim calls it."""
    state, launch_id = sys.argv[1:3]
    os.environ["AGENTCTL_HOME"] = state
    this_process.set_name(SHIM)  # the same name as before: other programs look for the shim by it
    try:
        retry_temporary(lambda: _await_agent(state, launch_id))
        finish_launch(state, launch_id, retry_temporary)
    except Exception as error:  # noqa: BLE001 - this file is the only place where it can be reported
        log_message(paths.database_file(state), launch_id, "finish", f"{type(error).__name__}: {error}")


def _await_agent(state: str, launch_id: str) -> None:
    """Wait for the agent if the shim only saw the end of a wrapper. Without a launch note there is
    nothing to finish, but the note that the shim carries stays visible as long as this process runs."""
    note = launches.find_launch(paths.database_file(state), launch_id) or _read_own_note()
    try:
        if note is not None:
            with Handle(note.identity) as agent:
                agent.wait(None)
    except Gone:  # the usual case
        pass


def _read_own_note() -> ShimNote | None:
    """Return the note that this process holds since it was the shim."""
    return read_shim_note(proc.read_process(os.getpid(), proc.read_boot_id()))


def retry_temporary(work: Callable[[], T]) -> T:
    """Return what `work` returns. Retries a Temporary error for a day. Raises SourceError."""
    pause, longest = PAUSES
    deadline = time.monotonic() + LASTS
    while True:
        try:
            return work()
        except Temporary:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, longest)


class Runner(Protocol):
    """How a step is run: once, or with retries."""

    def __call__(self, work: Callable[[], T]) -> T: ...


def run_once(work: Callable[[], T]) -> T:
    return work()


def finish_launch(state: str, launch_id: str, run: Runner = run_once) -> None:
    """Do the finishing work unless it is done. Raises SourceError for our own database."""
    notes = paths.database_file(state)
    row = run(lambda: launches.find_launch(notes, launch_id))
    if row is None:  # our state was deleted, and the hook with it
        return
    note = run(lambda: _with_session_id(notes, row))
    exit_record = _read_exit_record(notes, launch_id)
    if (
        run(lambda: launch_writes.claim_end(notes, launch_id, exit_record))
        and note.on_complete is not None
    ):
        hook_run = run(lambda: _run_hook(notes, note, exit_record))
        run(lambda: launch_writes.record_hook(notes, launch_id, hook_run))


def _run_hook(notes: str, note: Launch, exit_record: Exit | None) -> HookRun:
    session = _find_session(note)
    about_session = (session.verdict, session.observation.facts.model) if session is not None else ()
    facts = hooks.hook_facts(note, *about_session)
    if exit_record is not None:  # also if the agent left no session
        facts["AGENTCTL_EXIT_CODE"] = str(exit_record.code)
    place = launches.launch_folder(notes, note.id)
    return hooks.run_hook("on-complete", note.on_complete or "", note, place, facts)


def _read_exit_record(notes: str, launch_id: str) -> Exit | None:
    try:
        return launches.read_exit_record(notes, launch_id)
    except SourceError:  # an incomplete record says nothing
        return None


def _with_session_id(notes: str, note: Launch) -> Launch:
    """Return the note with the id of its session, also if the launcher died before it learned the id."""
    if note.session_id is not None or note.adapter is None:
        return note
    try:
        command = load(note.adapter).launch(LaunchRequest("", note.cwd or "/", os.environ))
    except Exception as error:  # noqa: BLE001 - an adapter that fails here costs the id, but no hook
        log_message(notes, note.id, "finish", f"no session id: {type(error).__name__}: {error}")
        return note
    read_id = command.read_id
    if read_id is None:
        return note
    with folder.Lines(launches.launch_folder(notes, note.id)) as lines:
        session_id = next((text for line in lines.read_new() if (text := read_id(line))), None)
    if session_id is None:
        return note
    new_note = note._replace(session_id=session_id)
    launch_writes.record_session(notes, new_note)
    return new_note


def _find_session(note: Launch) -> Session | None:
    if note.session_id is None or note.adapter is None:
        return None
    deadline = time.monotonic() + DOUBT
    while True:  # unknown for a moment while another session beside it is ending
        history = HistoryQuery(id_prefix=note.session_id)
        sessions = query.survey_sessions(history, (note.adapter,)).sessions
        session = next((s for s in sessions if s.observation.session_id == note.session_id), None)
        if session is None or session.verdict.status != "unknown" or time.monotonic() > deadline:
            return session
        time.sleep(BEAT)


def log_message(notes: str, launch_id: str, program: str, message: str) -> None:
    """Append the message to a file in the launch folder: our error stream goes nowhere."""
    try:
        with open(f"{launches.launch_folder(notes, launch_id)}/{program}", "a") as file:
            file.write(f"{message}\n")
    except OSError:  # the folder is gone, and the launch with it
        pass
