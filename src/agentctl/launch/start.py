"""Start one agent and return its session, under the agent's own id. A start that fails raises an error
with the agent's output and leaves nothing behind."""

from __future__ import annotations

import os
from contextlib import suppress

from agentctl import paths
from agentctl.errors import AgentctlError, Gone, SourceError, Unreachable
from agentctl.launch import arrival, first_run, folder, spawn
from agentctl.launch.order import Order, prepare_order
from agentctl.launch.plan import LaunchPlan, build_request
from agentctl.launch.slots import Slot
from agentctl.light_typing import Callable, Iterable
from agentctl.state import launch_writes, launches
from agentctl.system import proc
from agentctl.system.files import translate_error
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity, pid_namespace
from agentctl.truth.launches import ShimNote
from agentctl.truth.model import PROMPT_CAP, HookRun, Launch, Session, Worktree

OnSession = Callable[[Session], None]


def start_slot(state: str, plan: LaunchPlan, slot: Slot, on_session: OnSession | None = None) -> Session:
    """Start one slot. Raises what `launch` raises; then the slot's worktree is removed again."""
    worktree = _create_worktree(plan, slot)
    try:
        order = prepare_order(build_request(plan, slot, worktree), os.environ)
        return launch_agent(state, order, on_session)
    except BaseException:
        if worktree is not None:
            _remove_worktree(worktree, state)
        raise


def _create_worktree(plan: LaunchPlan, slot: Slot) -> Worktree | None:
    if plan.repository is None or slot.branch is None:
        return None
    from agentctl.worktrees import worktree

    place = worktree.choose_directory(
        worktree.find_main_checkout(plan.repository), plan.settings.worktrees.directory.value
    )
    return worktree.create_worktree(
        plan.repository, slot.branch, plan.spec.base_branch, place, plan.group
    )


def _remove_worktree(tree: Worktree, state: str) -> None:
    """Remove the worktree unless it is locked: an agent without a session in time runs on in it."""
    from agentctl.state import locks
    from agentctl.worktrees import worktree

    with suppress(AgentctlError):  # it is not empty any more: `worktree list` shows it
        directories = [lock.directory for lock in locks.list_held(paths.database_file(state))]
        if not any(paths.resolves_inside(directory, tree.path) for directory in directories):
            worktree.discard_worktree(tree)


def launch_agent(state: str, order: Order, on_session: OnSession | None = None) -> Session:
    """Start the agent and return its session. `on_session` is called as soon as the session is known: a
    start that cannot work may fail only after that. Raises StartFailed, Refused if the directory is
    locked, Unreachable if there is no session in time (the agent runs on; its pid finds it)."""
    turn = first_run.Turn(state, order.command.creates)
    try:
        return _launch(state, order, turn, on_session)
    finally:
        turn.end()


def _launch(state: str, order: Order, turn: first_run.Turn, on_session: OnSession | None) -> Session:
    notes = paths.database_file(state)
    place = launches.launch_folder(notes, order.id)
    child = spawn.Child(_shim_spec(state, place, order), order.environ)
    note = _build_note(order, child.identity)
    try:
        launch_writes.begin_launch(
            notes,
            note,
            force=order.request.force,
            timeout=order.request.timeout,
            cancels_fuses=order.request.cancels_fuses,
        )
        # Not before: a shim that carries a note without a row means that the database was deleted.
        child.carry(_shim_note(state, note))
        _become_agent(child, place, order)

        def record(new_note: Launch) -> None:
            child.carry(_shim_note(state, new_note))
            launch_writes.record_session(notes, new_note)

        session = arrival.await_session(note, notes, order, record)
        note = _record_owner(note, session, record)
        turn.end()
        if on_session is not None:
            on_session(session._replace(launch=note))
        _settle(session, child.identity, notes, order)
    except Unreachable:  # the agent lives: keep all that we know of it
        child.release()
        raise
    except BaseException as error:
        _undo(child, notes, order.id, str(error) or type(error).__name__)
        raise
    try:
        if order.request.on_create is not None:
            note = _run_on_create(notes, place, session._replace(launch=note), order.request.on_create)
    finally:
        child.release()  # only now: the finishing work starts with the release, after on-create
    return session._replace(launch=note)


def _settle(session: Session, identity: ProcessIdentity, notes: str, order: Order) -> None:
    """Watch the agent for its settle time. Raises StartFailed if it ends in failure."""
    try:
        with Handle(identity) as agent:
            owner = session.observation.owner
            worker = owner.pid if owner is not None else identity.pid
            has_ended = arrival.ends_within(agent, worker, order.command.settle_time)
    except Gone:
        has_ended = True
    except KeyboardInterrupt:  # the user has the id and does not want to wait
        return
    exit_record = arrival.read_exit(notes, order.id) if has_ended else None
    if exit_record is not None and exit_record.code != 0:
        raise arrival.start_failure(exit_record, notes, order)


def _run_on_create(notes: str, place: str, session: Session, command: str) -> Launch:
    """Return the note with the hook's run. The agent runs, so a failed hook does not fail the launch."""
    from agentctl.launch import hooks

    note = session.launch
    assert note is not None
    facts = hooks.hook_facts(note, model=session.observation.facts.model)
    try:
        run = hooks.run_hook("on-create", command, note, place, facts)
        launch_writes.record_hook(notes, note.id, run)
    except SourceError as error:
        run = HookRun("on-create", command, hooks.NOT_STARTED, 0.0, str(error))
    return note._replace(hooks=(run,))


def _shim_spec(state: str, place: str, order: Order) -> bytes:
    command = order.command
    return spawn.build_spec(
        place,
        command.cwd,
        command.argv,
        order.environ,
        timeout=order.request.timeout,
        then=(state, order.id),
    )


def _build_note(order: Order, identity: ProcessIdentity) -> Launch:
    request = order.request
    return Launch(
        id=order.id,
        identity=identity,
        session_id=order.command.session_id,
        name=request.name,
        group=request.group,
        spec=request.spec,
        meta=request.meta,
        adapter=request.adapter,
        cwd=order.command.cwd,
        model=request.model,
        worktree=request.worktree,
        on_complete=request.on_complete,
        created_at=order.at,
        namespace=pid_namespace(),
        prompt=request.prompt[:PROMPT_CAP].encode(errors="replace").decode(),
    )


def _shim_note(state: str, note: Launch) -> ShimNote:
    return ShimNote(
        launch_id=note.id,
        state=os.path.realpath(state),
        adapter=note.adapter or "",
        directory=os.path.realpath(note.cwd or "/"),
        identity=note.identity,
        namespace=note.namespace,
        created_at=note.created_at or 0.0,
        session_id=note.session_id,
        name=note.name,
    )


def _become_agent(child: spawn.Child, place: str, order: Order) -> None:
    try:
        folder.make_folder(place, order.command.stdin, order.command.files)
    except OSError as error:
        raise translate_error(error, place) from error
    child.go()


def _undo(child: spawn.Child, notes: str, launch_id: str, why: str) -> None:
    """Remove the processes, the note, the lock and the folder of a launch that failed."""
    kill_launch(child.identity, launch_id)
    try:  # before the shim ends: a note without a shim is one that `prune` finishes
        launch_writes.record_failure(notes, launch_id, why)
    except SourceError:  # a full disk, a lost home: the user needs the first error, not this one
        pass
    child.forget()
    folder.remove_folder(launches.launch_folder(notes, launch_id))


def kill_launch(identity: ProcessIdentity, launch_id: str, among: Iterable[Session] = ()) -> None:
    """Kill every process of the launch: a wrapper that is killed leaves the agent behind. `among`: all
    live sessions, to spare those that run inside this launch."""
    from agentctl.process.handles import kill_all
    from agentctl.process.tree import ProcessFamily

    first = proc.find_process(identity)
    confine = os.environ.get("AGENTCTL_CONFINE", "")
    family = ProcessFamily(first, launch_id, among=among, confine=confine)
    own = [first] if first is not None else []
    kill_all(lambda earlier: [*own, *family.find_relatives(proc.read_table(), earlier).members])


def _record_owner(note: Launch, session: Session, record: Callable[[Launch], None]) -> Launch:
    """Return the note with the session's id and the process that runs the session, which may be a child
    of the one that we started."""
    owner = session.observation.owner
    identity = owner.identity if owner is not None else note.identity
    new_note = note._replace(session_id=session.observation.session_id, identity=identity)
    if owner is None or identity != note.identity:  # else `await_session` has recorded it
        record(new_note)
    return new_note
