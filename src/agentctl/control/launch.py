"""Starts one agent and returns its session, under the agent's own id, or fails with the agent's own
words and leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agentctl import asking, paths
from agentctl.adapters.plans import Command
from agentctl.control import output, spawn
from agentctl.errors import Gone, StartFailed, Unreachable
from agentctl.store import launches, ledger
from agentctl.truth import procfs
from agentctl.truth.files import translated
from agentctl.truth.model import Exit, Launch, ProcessIdentity, Session, Worktree
from agentctl.truth.pidfd import Handle
from agentctl.truth.procfs import Process
from agentctl.truth.survey import Wanted
from agentctl.truth.watch import Watch

PATIENCE = 120.0  # seconds an agent may take to have a session; some load for long on a busy machine
# Seconds between two glances at what it has said, and between two looks once its id is known. Clocks,
# and not file events: an agent's records may be in directories that do not exist yet, and the kernel
# takes 15 ms to close an inotify descriptor, which is a tenth of what a launch may cost.
BEAT = 0.01
BEAT_OF_LOOKS = 0.03
LAST_WORD = 5.0  # seconds the shim may take to write down an end that we have seen

MARKER = "AGENTCTL_LAUNCH_ID"


class Order(NamedTuple):
    """One launch, decided before anything is done."""

    adapter: str
    command: Command  # argv[0] is a path
    environ: Mapping[str, str]  # all of it
    id: str
    name: str | None = None
    group: str | None = None
    spec: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    worktree: Worktree | None = None
    on_create: str | None = None
    on_complete: str | None = None
    timeout: float | None = None
    force: bool = False
    at: float = 0.0  # when it was given
    before: float | None = None  # when the session to go on with was last written to


def new_id() -> str:
    return os.urandom(6).hex()


def launch(state: str, order: Order, tell: Callable[[Session], None] | None = None) -> Session:
    """`tell` is called when the session is known, which is some time before this returns: a start that
    cannot work may show only then. Raises StartFailed, Refused where the directory is held, Unreachable
    where it has no session in time (it runs on, and can be asked about by its pid)."""
    notes = paths.notes_file(state)
    folder = launches.folder(notes, order.id)
    child = spawn.Child(_spec(state, folder, order), order.environ)
    note = _note(order, child.identity)
    try:
        ledger.begin(notes, note, force=order.force)
        _go(child, folder, order)
        session = _session(note, notes, order)
        note = _learned(notes, note, session)
        _settle(session._replace(launch=note), child.identity, folder, order, tell)
    except Unreachable:  # it lives: all that we know of it stays
        child.release()
        raise
    except BaseException:
        _undo(child, notes, folder, order.id)
        raise
    try:
        if order.on_create is not None:
            note = _created(notes, folder, note, order.on_create)
    finally:
        child.release()  # only now: the finishing work waits for that, and comes after the beginning
    return session._replace(launch=note)


def _settle(
    session: Session,
    identity: ProcessIdentity,
    folder: str,
    order: Order,
    tell: Callable[[Session], None] | None,
) -> None:
    """Raises StartFailed if it ends in failure while we look on."""
    if tell is not None:
        tell(session)
    try:
        with Handle(identity) as agent:
            over = agent.wait(order.command.settles)
    except Gone:
        over = True
    except KeyboardInterrupt:  # the person has the id and waits no longer: it is on its own
        return
    ended = _exit(folder, order.id) if over else None
    if ended is not None and ended.code != 0:
        raise _failed(ended, folder, order)


def _created(notes: str, folder: str, note: Launch, command: str) -> Launch:
    from agentctl.control import hooks

    run = hooks.run("on-create", command, note, folder, hooks.facts(note))
    ledger.hook_ran(notes, note.id, run)
    return note._replace(hooks=(run,))


def _spec(state: str, folder: str, order: Order) -> bytes:
    command = order.command
    then = (state, order.id)
    return spawn.spec(folder, command.cwd, command.argv, order.environ, timeout=order.timeout, then=then)


def _note(order: Order, identity: ProcessIdentity) -> Launch:
    return Launch(
        order.id,
        identity,
        order.command.session_id,
        order.name,
        order.group,
        order.spec,
        order.meta,
        order.adapter,
        order.command.cwd,
        order.model,
        order.worktree,
        order.on_complete,
        order.at,
    )


def _go(child: spawn.Child, folder: str, order: Order) -> None:
    try:
        output.make(folder, order.command.stdin, order.command.files)
    except OSError as error:
        raise translated(error, folder) from error
    child.go()


def _undo(child: spawn.Child, notes: str, folder: str, launch_id: str) -> None:
    """As if it had never been: its processes, the note, the lock, the folder."""
    _end(child.identity, launch_id)
    ledger.forget(notes, [launch_id])  # before the shim leaves: then `prune` may finish it
    child.forget()
    output.remove(folder)


def _end(identity: ProcessIdentity, launch_id: str) -> None:
    """All of them: a wrapper that is killed leaves the agent behind."""
    from signal import SIGKILL

    from agentctl.control.targets import Targets
    from agentctl.control.tree import Family

    first = procfs.current(identity)
    family = Family(first, launch_id, confine=os.environ.get("AGENTCTL_CONFINE", ""))
    found = [first] if first is not None else []
    with Targets() as targets:
        while targets.open([*found, *family.look(procfs.read_table(), targets.identities).members]):
            targets.signal(SIGKILL)
            targets.wait(LAST_WORD)


def _session(note: Launch, notes: str, order: Order) -> Session:
    """Wait until the session that this process runs is one that `list` shows."""
    deadline = time.monotonic() + PATIENCE
    folder = launches.folder(notes, order.id)
    session_id, lines = order.command.session_id, output.Lines(folder)
    asking.everything(None, (order.adapter,))  # what a look has to import is imported while it starts
    try:
        agent = Handle(note.identity)
    except Gone:
        return _over(session_id or _announced(order.command, lines), folder, order)
    with agent:
        while True:
            ended = agent.wait(0)  # looked at before all else, so that its last words are heard
            if session_id is None and (session_id := _announced(order.command, lines)) is not None:
                _expect(session_id, order.command)
                # at once: beside others in one directory, our note is what tells which it runs
                ledger.learned(notes, note._replace(session_id=session_id))
            if session_id is not None:
                session = _listed(session_id, note.identity, order.adapter)
                if session is not None:
                    return session
            if ended:
                return _over(session_id, folder, order)
            if time.monotonic() > deadline:
                raise _late(note.identity)
            agent.wait(BEAT if session_id is None else BEAT_OF_LOOKS)


def _announced(command: Command, lines: output.Lines) -> str | None:
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
    for session in asking.everything(None, (adapter,)).sessions:
        owner = session.seen.owner
        if session.seen.session_id == session_id and owner is not None and _is(owner, identity):
            return session
    return None


def _is(owner: Process, identity: ProcessIdentity) -> bool:
    """Whether it is the process that we started, or one below it: what we started may be a wrapper."""
    try:
        while owner.identity != identity:
            owner = procfs.read_process(owner.parent, identity.boot)
    except Gone:  # we are past the first of all processes
        return False
    return True


def _over(session_id: str | None, folder: str, order: Order) -> Session:
    """It ended while we waited: a quick success, or a start that failed."""
    ended = _exit(folder, order.id)
    if ended is not None and ended.code == 0 and session_id is not None:
        session = _written(session_id, order)
        if session is not None:
            return session
    raise _failed(ended, folder, order)


def _failed(ended: Exit | None, folder: str, order: Order) -> StartFailed:
    how = f"{order.adapter} ended while it was being launched: {_told(ended)}"
    return StartFailed(how, said=output.last_words(folder))


def _written(session_id: str, order: Order) -> Session | None:
    """The ended session, if this launch has left a word in it: an agent that is asked to go on with
    one may well do nothing and call that a success."""
    for session in asking.everything(Wanted(id_prefix=session_id), (order.adapter,)).sessions:
        last = session.seen.facts.last_activity_at
        since = order.before if order.before is not None else order.at - 1
        if session.seen.session_id == session_id and (last is None or last > since):
            return session
    return None


def _exit(folder: str, launch_id: str) -> Exit | None:
    """The shim's record. It comes a moment after the process has ended."""
    notes = paths.notes_file(folder.rpartition("/launches/")[0])
    deadline = time.monotonic() + LAST_WORD
    with Watch([folder], []) as watch:
        while (ended := launches.exit_record(notes, launch_id)) is None:
            left = deadline - time.monotonic()
            if left <= 0 or not watch.wait(left):
                return None
    return ended


def _told(ended: Exit | None) -> str:
    if ended is None:
        return "how, is not known"
    return f"signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"


def _late(identity: ProcessIdentity) -> Unreachable:
    return Unreachable(
        f"no session after {PATIENCE:g} s; it runs on as pid {identity.pid}",
        f"agentctl status pid:{identity.pid} shows it, agentctl stop pid:{identity.pid} ends it",
    )


def _learned(notes: str, note: Launch, session: Session) -> Launch:
    """Which session it is, and which process runs it: that need not be the one that we started."""
    owner = session.seen.owner
    identity = owner.identity if owner is not None else note.identity
    known = note._replace(session_id=session.seen.session_id, identity=identity)
    ledger.learned(notes, known)
    return known
