"""Wait until a launched agent has a session that `list` shows, or has failed to get one."""

from __future__ import annotations

import time

from agentctl.adapters.plans import Command
from agentctl.errors import Gone, StartFailed, Unreachable
from agentctl.launch import folder
from agentctl.launch.order import Order
from agentctl.light_typing import Callable
from agentctl.sessions import query
from agentctl.state import launches
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.truth.model import Exit, Launch, Session
from agentctl.truth.survey import HistoryQuery

PATIENCE = 120.0  # seconds an agent may take to have a session; some load for long on a busy machine
# Seconds between two reads of the output, and between two looks once the id is known. These are clocks
# and not file events: an agent's records may be in directories that do not exist yet, and the kernel
# takes 15 ms to close an inotify descriptor, which is a tenth of what a launch may cost.
BEAT = 0.01
BEAT_OF_LOOKS = 0.03
SILENCE = 10.0  # seconds after which a listed session without a record of its own is accepted
MOST_QUEUED = 10  # times the settle time: how long a process may wait for a processor
BEAT_OF_SETTLING = 0.1  # seconds: the shortest wait for the end of an agent

Record = Callable[[Launch], None]


def await_session(note: Launch, notes: str, order: Order, record: Record) -> Session:
    """Return the session of this launch once `list` shows it. `record` is called with the note as soon
    as it has the session's id. Raises StartFailed, Unreachable."""
    with folder.Lines(launches.launch_folder(notes, order.id)) as lines:
        query.survey_sessions(
            None, (order.request.adapter,)
        )  # import its modules while the agent starts
        try:
            agent = Handle(note.identity)
        except Gone:
            session_id = order.command.session_id or _read_id(order.command, lines)
            return _ended_session(session_id, notes, order)
        with agent:
            return _await_session(agent, lines, note, notes, order, record=record)


def _await_session(
    agent: Handle, lines: folder.Lines, note: Launch, notes: str, order: Order, *, record: Record
) -> Session:
    began = time.monotonic()
    chosen = session_id = order.command.session_id
    while True:
        has_ended = agent.wait(0)  # before reading: its last lines count
        if session_id is None and (session_id := _read_id(order.command, lines)) is not None:
            _check_id(session_id, order.command)
            # Record it now: beside others in one directory, the note tells which session the agent runs.
            record(note._replace(session_id=session_id))
        waited = time.monotonic() - began
        if session_id is not None:
            session = _find_listed(session_id, note.identity, order.request.adapter)
            if session is not None and (chosen is None or _has_record(session) or waited > SILENCE):
                return session
        if has_ended:
            return _ended_session(session_id, notes, order)
        if waited > PATIENCE:
            pid = note.identity.pid
            raise Unreachable(
                f"no session after {PATIENCE:g} s; it runs on as pid {pid}",
                f"agentctl status pid:{pid} shows it, agentctl stop pid:{pid} ends it",
            )
        agent.wait(BEAT if session_id is None else BEAT_OF_LOOKS)


def _read_id(command: Command, lines: folder.Lines) -> str | None:
    if command.read_id is None:
        return None
    ids = (command.read_id(line) for line in lines.read_new())
    return next((session_id for session_id in ids if session_id), None)


def _check_id(session_id: str, command: Command) -> None:
    if command.expected_id not in (None, session_id):
        raise StartFailed(
            f"it opened session {session_id} instead of {command.expected_id}",
            f"the agent was stopped; session {command.expected_id} is unchanged",
        )


def _find_listed(session_id: str, identity: ProcessIdentity, adapter: str) -> Session | None:
    for session in query.survey_sessions(None, (adapter,)).sessions:
        owner = session.observation.owner
        if (
            session.observation.session_id == session_id
            and owner is not None
            and _is_inside(owner, identity)
        ):
            return session
    return None


def _has_record(session: Session) -> bool:
    """Return True if the agent has written something. An id that we chose stands in its arguments, which
    proves nothing."""
    return session.verdict.activity != "unknown"


def _is_inside(owner: Process, identity: ProcessIdentity) -> bool:
    """Return True for the process that we started and for those below it: it may be a wrapper."""
    try:
        while owner.identity != identity:
            owner = proc.read_process(owner.parent, identity.boot)
    except Gone:  # above the first process
        return False
    return True


def _ended_session(session_id: str | None, notes: str, order: Order) -> Session:
    """Return the session of an agent that ended during the wait. Raises StartFailed unless it has
    succeeded and written to its session."""
    exit_record = read_exit(notes, order.id)
    if exit_record is not None and exit_record.code == 0 and session_id is not None:
        session = _find_written(session_id, order)
        if session is not None:
            return session
    raise start_failure(exit_record, notes, order)


def _find_written(session_id: str, order: Order) -> Session | None:
    """Return the ended session if this launch has written to it: an agent that resumes a session may do
    nothing and exit with 0."""
    history = HistoryQuery(id_prefix=session_id)
    since = order.before if order.before is not None else order.at - 1
    for session in query.survey_sessions(history, (order.request.adapter,)).sessions:
        observation = session.observation
        last = observation.facts.last_activity_at
        # Only the agent's own transcript counts: our note proves no success.
        if (
            observation.transcript is not None
            and observation.session_id == session_id
            and (last is None or last > since)
        ):
            return session
    return None


def start_failure(exit_record: Exit | None, notes: str, order: Order) -> StartFailed:
    """Return the error of an agent that ended too early, with its last output."""
    if exit_record is None:
        reason = "how it ended is not known"
    else:
        code = exit_record.code
        reason = f"signal {-code}" if code < 0 else f"exit code {code}"
    return StartFailed(
        f"{order.request.adapter} ended while it was being launched: {reason}",
        output=folder.last_lines(launches.launch_folder(notes, order.id)),
    )


def read_exit(notes: str, launch_id: str) -> Exit | None:
    """Return the exit record, which the shim writes a moment after the end; None: there is none."""
    from agentctl.launch.exit_record import await_record  # only a failed start needs this import

    return await_record(notes, launch_id)


def ends_within(agent: Handle, pid: int, seconds: float) -> bool:
    """Return True if the agent ends within so many seconds in which `pid`, the process that does its
    work, could have run. The time that it waits for a processor is added, up to ten times as long."""
    began, queued = time.monotonic(), proc.read_queue_seconds(pid)
    remaining = seconds
    while remaining > 0:
        if agent.wait(max(remaining, BEAT_OF_SETTLING)):
            return True
        queued_since = proc.read_queue_seconds(pid) - queued
        remaining = remaining_seconds(seconds, time.monotonic() - began, queued_since)
    return agent.wait(0)


def remaining_seconds(seconds: float, passed: float, queued: float) -> float:
    return min(seconds + queued, MOST_QUEUED * seconds) - passed
