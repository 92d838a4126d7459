"""Starts one agent and returns its session, under the agent's own id, or fails with the agent's own
words and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from agentctl import paths
from agentctl.errors import Gone, SourceError, Unreachable
from agentctl.launch import fair, first_run, folder, spawn
from agentctl.launch.arrival import arrived, failure, how_it_ended
from agentctl.launch.order import Order
from agentctl.state import launch_writes, launches
from agentctl.system import proc
from agentctl.system.files import translated
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from agentctl.system.proc import namespace
from agentctl.truth.launched import Carried
from agentctl.truth.model import HookRun, Launch, Session


def launch(state: str, order: Order, tell: Callable[[Session], None] | None = None) -> Session:
    """`tell` is called when the session is known, which is some time before this returns: a start that
    cannot work may show only then. Raises StartFailed, Refused where the directory is held, Unreachable
    where it has no session in time (it runs on, and can be asked about by its pid)."""
    turn = first_run.Turn(state, order.command.creates)
    try:
        return _launched(state, order, turn, tell)
    finally:
        turn.over()


def _launched(
    state: str, order: Order, turn: first_run.Turn, tell: Callable[[Session], None] | None
) -> Session:
    notes = paths.notes_file(state)
    place = launches.folder(notes, order.id)
    child = spawn.Child(_spec(state, place, order), order.environ)
    note = _note(order, child.identity)
    try:
        launch_writes.begin(
            notes,
            note,
            force=order.force,
            timeout=order.timeout,
            cancels_fuses=order.cancels_fuses,
        )
        child.carry(_carried(state, note))  # not before: a shim without a note is one whose note is lost
        _go(child, place, order)

        def learned(known: Launch) -> None:
            child.carry(_carried(state, known))
            launch_writes.learned(notes, known)

        session = arrived(note, notes, order, learned)
        note = _learned(note, session, learned)
        turn.over()
        _settle(session._replace(launch=note), child.identity, notes, order, tell)
    except Unreachable:  # it lives: all that we know of it stays
        child.release()
        raise
    except BaseException as error:
        _undo(child, notes, order.id, str(error) or type(error).__name__)
        raise
    try:
        if order.on_create is not None:
            note = _created(notes, place, session._replace(launch=note), order.on_create)
    finally:
        child.release()  # only now: the finishing work waits for that, and comes after the beginning
    return session._replace(launch=note)


def _settle(
    session: Session,
    identity: ProcessIdentity,
    notes: str,
    order: Order,
    tell: Callable[[Session], None] | None,
) -> None:
    """Raises StartFailed if it ends in failure while we look on."""
    if tell is not None:
        tell(session)
    try:
        with Handle(identity) as agent:
            owner = session.seen.owner
            worker = owner.pid if owner is not None else identity.pid
            over = fair.ended(agent, worker, order.command.settles)
    except Gone:
        over = True
    except KeyboardInterrupt:  # the person has the id and waits no longer: it is on its own
        return
    ended = how_it_ended(notes, order.id) if over else None
    if ended is not None and ended.code != 0:
        raise failure(ended, notes, order)


def _created(notes: str, place: str, session: Session, command: str) -> Launch:
    """The agent runs: whatever goes wrong with the hook is told, and is no failure of the launch."""
    from agentctl.launch import hooks

    note = session.launch
    assert note is not None
    facts = hooks.facts(note, model=session.seen.facts.model)
    try:
        run = hooks.run("on-create", command, note, place, facts)
        launch_writes.hook_ran(notes, note.id, run)
    except SourceError as error:
        run = HookRun("on-create", command, hooks.NOT_STARTED, 0.0, str(error))
    return note._replace(hooks=(run,))


def _spec(state: str, place: str, order: Order) -> bytes:
    command = order.command
    then = (state, order.id)
    return spawn.spec(place, command.cwd, command.argv, order.environ, timeout=order.timeout, then=then)


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
        namespace=namespace(),
        prompt=order.prompt,
    )


def _carried(state: str, note: Launch) -> Carried:
    return Carried(
        note.id,
        os.path.realpath(state),
        note.adapter or "",
        os.path.realpath(note.cwd or "/"),
        note.identity,
        note.namespace,
        note.created_at or 0.0,
        note.session_id,
        note.name,
    )


def _go(child: spawn.Child, place: str, order: Order) -> None:
    try:
        folder.make(place, order.command.stdin, order.command.files)
    except OSError as error:
        raise translated(error, place) from error
    child.go()


def _undo(child: spawn.Child, notes: str, launch_id: str, why: str) -> None:
    """As if it had never been: its processes, the note, the lock, the folder."""
    end(child.identity, launch_id)
    try:  # before the shim leaves: without one, a note is `prune`'s to finish
        launch_writes.failed(notes, launch_id, why)
    except SourceError:  # a full disk, a lost home: why it failed is what a person is to be told
        pass
    child.forget()
    folder.remove(launches.folder(notes, launch_id))


def end(identity: ProcessIdentity, launch_id: str, among: Iterable[Session] = ()) -> None:
    """All of them: a wrapper that is killed leaves the agent behind. `among`: every live session, for
    those inside this one that are to live."""
    from agentctl.process.handles import kill_all
    from agentctl.process.tree import Family

    first = proc.current(identity)
    confine = os.environ.get("AGENTCTL_CONFINE", "")
    family = Family(first, launch_id, among=among, confine=confine)
    own = [first] if first is not None else []
    kill_all(lambda known: [*own, *family.look(proc.read_table(), known).members])


def _learned(note: Launch, session: Session, learned: Callable[[Launch], None]) -> Launch:
    """Which session it is, and which process runs it: that need not be the one that we started."""
    owner = session.seen.owner
    identity = owner.identity if owner is not None else note.identity
    known = note._replace(session_id=session.seen.session_id, identity=identity)
    if owner is None or identity != note.identity:  # else it is noted
        learned(known)
    return known
