"""What is left to do when a launched agent has ended: note how it ended, run the on-complete hook.

The shim becomes this when its agent has ended. Where the shim was killed, `stop` and `prune` call it.
Whoever comes first does it, the others find it done. What a full disk hinders the shim's heir does
when there is room again: nobody else comes by.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from agentctl import paths
from agentctl.adapters.plans import LaunchRequest
from agentctl.adapters.registry import load
from agentctl.errors import Gone, Passing, SourceError
from agentctl.launch import folder, hooks
from agentctl.sessions import query
from agentctl.state import launch_writes, launches
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.program import SHIM
from agentctl.truth.launched import Carried, carried
from agentctl.truth.model import Exit, HookRun, Launch, Session
from agentctl.truth.survey import Wanted

T = TypeVar("T")
PAUSES = 0.5, 60.0  # seconds, at first and at most, between two tries
LASTS = 86400.0
DOUBT = 4.0  # seconds that an end may be unknown, and how often it is asked for
BEAT = 0.2


def main() -> None:
    """`finish STATE LAUNCH`, as the shim calls it."""
    state, launch_id = sys.argv[1:3]
    os.environ["AGENTCTL_HOME"] = state
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(SHIM)  # as before: we are what stands between the agent and its hook
    try:
        patiently(lambda: _outlast(state, launch_id))
        finish(state, launch_id, patiently)
    except Exception as error:  # noqa: BLE001 - whatever it was, nobody else can tell of it
        leave_word(paths.notes_file(state), launch_id, "finish", f"{type(error).__name__}: {error}")


def _outlast(state: str, launch_id: str) -> None:
    """What the shim saw the end of may have been a wrapper, and the agent lives on. Without a note there
    is nothing to finish, but what the shim tells of it is to be told until then."""
    known = launches.noted(paths.notes_file(state), launch_id) or _carried()
    try:
        if known is not None:
            with Handle(known.identity) as agent:
                agent.wait(None)
    except Gone:  # the usual case
        pass


def _carried() -> Carried | None:
    """What we hold since we were the shim."""
    return carried(proc.read_process(os.getpid(), proc.boot_id()))


def patiently(work: Callable[[], T]) -> T:
    """Until what hinders it has passed, for a day. Raises SourceError."""
    pause, most = PAUSES
    deadline = time.monotonic() + LASTS
    while True:
        try:
            return work()
        except Passing:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, most)


class Way(Protocol):
    """How a step is taken."""

    def __call__(self, work: Callable[[], T]) -> T: ...


def at_once(work: Callable[[], T]) -> T:
    return work()


def finish(state: str, launch_id: str, do: Way = at_once) -> None:
    """Raises SourceError if our own notes cannot be read or written."""
    notes = paths.notes_file(state)
    found = do(lambda: launches.noted(notes, launch_id))
    if found is None:  # our state was deleted, and what only we knew with it
        return
    note = do(lambda: _identified(notes, found))
    ended = _exit(notes, launch_id)
    if do(lambda: launch_writes.claim_end(notes, launch_id, ended)) and note.on_complete is not None:
        ran = do(lambda: _hook(notes, note, ended))
        do(lambda: launch_writes.hook_ran(notes, launch_id, ran))


def _hook(notes: str, note: Launch, ended: Exit | None) -> HookRun:
    session = _session(note)
    known = (session.verdict, session.seen.facts.model) if session is not None else ()
    facts = hooks.facts(note, *known)
    if ended is not None:  # also where the agent left no session to tell it by
        facts["AGENTCTL_EXIT_CODE"] = str(ended.code)
    place = launches.folder(notes, note.id)
    return hooks.run("on-complete", note.on_complete or "", note, place, facts)


def _exit(notes: str, launch_id: str) -> Exit | None:
    try:
        return launches.exit_record(notes, launch_id)
    except SourceError:  # half a record is none: how it ended is then not known
        return None


def _identified(notes: str, note: Launch) -> Launch:
    """With its session's id, also where the launcher died before it had learned that."""
    if note.session_id is not None or note.adapter is None:
        return note
    try:
        described = load(note.adapter).launch(LaunchRequest("", note.cwd or "/", os.environ))
    except Exception as error:  # noqa: BLE001 - an adapter that fails here costs an id, and no hook
        leave_word(notes, note.id, "finish", f"which session it was: {type(error).__name__}: {error}")
        return note
    announced = described.announced
    if announced is None:
        return note
    with folder.Lines(launches.folder(notes, note.id)) as lines:
        session_id = next((told for line in lines.new() if (told := announced(line))), None)
    if session_id is None:
        return note
    known = note._replace(session_id=session_id)
    launch_writes.learned(notes, known)
    return known


def _session(note: Launch) -> Session | None:
    if note.session_id is None or note.adapter is None:
        return None
    end = time.monotonic() + DOUBT
    while True:  # unknown for a moment, beside another one that is ending
        found = query.everything(Wanted(id_prefix=note.session_id), (note.adapter,)).sessions
        session = next((each for each in found if each.seen.session_id == note.session_id), None)
        if session is None or session.verdict.status != "unknown" or time.monotonic() > end:
            return session
        time.sleep(BEAT)


def leave_word(notes: str, launch_id: str, whose: str, word: str) -> None:
    """Nobody reads our error stream: beside the rest of the launch somebody may."""
    try:
        with open(f"{launches.folder(notes, launch_id)}/{whose}", "a") as file:
            file.write(f"{word}\n")
    except OSError:  # no folder, no readers
        pass
