"""Waits until a launched agent has a session that `list` shows, or has failed to get one."""

from __future__ import annotations

import time
from collections.abc import Callable

from agentctl.adapters.plans import Command
from agentctl.errors import Gone, StartFailed, Unreachable
from agentctl.launch import folder
from agentctl.launch.order import Order
from agentctl.sessions import query
from agentctl.state import launches
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process
from agentctl.truth.model import Exit, Launch, Session
from agentctl.truth.survey import Wanted

PATIENCE = 120.0  # seconds an agent may take to have a session; some load for long on a busy machine
# Seconds between two glances at what it has said, and between two looks once its id is known. Clocks,
# and not file events: an agent's records may be in directories that do not exist yet, and the kernel
# takes 15 ms to close an inotify descriptor, which is a tenth of what a launch may cost.
BEAT = 0.01
BEAT_OF_LOOKS = 0.03
Learned = Callable[[Launch], None]
SILENCE = 10.0  # seconds after which one that is listed, and says nothing of itself, will do


def arrived(note: Launch, notes: str, order: Order, learned: Learned) -> Session:
    """Wait until the session that this process runs is one that `list` shows. `learned` is called with
    the note as soon as the session's id is in it."""
    with folder.Lines(launches.folder(notes, order.id)) as lines:
        query.everything(None, (order.adapter,))  # what a look has to import comes while it starts
        try:
            agent = Handle(note.identity)
        except Gone:
            told = order.command.session_id or _announced(order.command, lines)
            return _over(told, notes, order)
        with agent:
            return _awaited(agent, lines, note, notes, order, learned=learned)


def _awaited(
    agent: Handle, lines: folder.Lines, note: Launch, notes: str, order: Order, *, learned: Learned
) -> Session:
    began = time.monotonic()
    chosen = session_id = order.command.session_id
    while True:
        ended = agent.wait(0)  # looked at before all else, so that its last words are heard
        if session_id is None and (session_id := _announced(order.command, lines)) is not None:
            _expect(session_id, order.command)
            # at once: beside others in one directory, our note is what tells which it runs
            learned(note._replace(session_id=session_id))
        waited = time.monotonic() - began
        if session_id is not None:
            session = _listed(session_id, note.identity, order.adapter)
            if session is not None and (chosen is None or _has_spoken(session) or waited > SILENCE):
                return session
        if ended:
            return _over(session_id, notes, order)
        if waited > PATIENCE:
            raise _late(note.identity)
        agent.wait(BEAT if session_id is None else BEAT_OF_LOOKS)


def _announced(command: Command, lines: folder.Lines) -> str | None:
    if command.announced is None:
        return None
    found = (command.announced(line) for line in lines.new())
    return next((session_id for session_id in found if session_id), None)


def _expect(session_id: str, command: Command) -> None:
    if command.expected not in (None, session_id):
        raise StartFailed(
            f"it opened session {session_id} instead of {command.expected}",
            "it was ended at once; the session you asked for is as it was",
        )


def _listed(session_id: str, identity: ProcessIdentity, adapter: str) -> Session | None:
    for session in query.everything(None, (adapter,)).sessions:
        owner = session.seen.owner
        if session.seen.session_id == session_id and owner is not None and _is(owner, identity):
            return session
    return None


def _has_spoken(session: Session) -> bool:
    """Of an id that we chose, our own word in its arguments proves nothing: a record of its own does."""
    return session.verdict.activity != "unknown"


def _is(owner: Process, identity: ProcessIdentity) -> bool:
    """Whether it is the process that we started, or one below it: what we started may be a wrapper."""
    try:
        while owner.identity != identity:
            owner = proc.read_process(owner.parent, identity.boot)
    except Gone:  # we are past the first of all processes
        return False
    return True


def _over(session_id: str | None, notes: str, order: Order) -> Session:
    """It ended while we waited: a quick success, or a start that failed."""
    ended = how_it_ended(notes, order.id)
    if ended is not None and ended.code == 0 and session_id is not None:
        session = _written(session_id, order)
        if session is not None:
            return session
    raise failure(ended, notes, order)


def failure(ended: Exit | None, notes: str, order: Order) -> StartFailed:
    how = f"{order.adapter} ended while it was being launched: {_told(ended)}"
    return StartFailed(how, said=folder.last_words(launches.folder(notes, order.id)))


def _written(session_id: str, order: Order) -> Session | None:
    """The ended session, if this launch has left a word in it: an agent that is asked to go on with
    one may well do nothing and call that a success."""
    for session in query.everything(Wanted(id_prefix=session_id), (order.adapter,)).sessions:
        last = session.seen.facts.last_activity_at
        since = order.before if order.before is not None else order.at - 1
        told = session.seen.transcript is not None  # by the agent: our own note proves no success
        if told and session.seen.session_id == session_id and (last is None or last > since):
            return session
    return None


def how_it_ended(notes: str, launch_id: str) -> Exit | None:
    from agentctl.launch.exit_record import written_down  # a failed start can wait for an import

    return written_down(notes, launch_id)


def _told(ended: Exit | None) -> str:
    if ended is None:
        return "how it ended is not known"
    return f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"


def _late(identity: ProcessIdentity) -> Unreachable:
    return Unreachable(
        f"no session after {PATIENCE:g} s; it runs on as pid {identity.pid}",
        f"agentctl status pid:{identity.pid} shows it, agentctl stop pid:{identity.pid} ends it",
    )
