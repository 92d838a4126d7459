"""From one start as a user asks for it to one exact start: program, arguments, environment."""

from __future__ import annotations

import os
import time

from agentctl import paths
from agentctl.adapters.environment import scrub
from agentctl.adapters.plans import Command, LaunchRequest
from agentctl.adapters.registry import load
from agentctl.errors import UsageError
from agentctl.launch.program import find_program
from agentctl.light_typing import Mapping, NamedTuple
from agentctl.process.ours import LAUNCH
from agentctl.state import launches
from agentctl.state.db import is_utf8
from agentctl.truth.model import Observation, Worktree


class StartRequest(NamedTuple):
    """One start as a user asks for it."""

    adapter: str
    prompt: str
    cwd: str
    model: str | None = None
    name: str | None = None
    group: str | None = None
    spec: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    environ: tuple[tuple[str, str], ...] = ()
    system_prompt: str | None = None
    permission_mode: str | None = None
    native: tuple[str, ...] = ()
    binary: str | None = None  # instead of the adapter's own
    worktree: Worktree | None = None
    on_create: str | None = None
    on_complete: str | None = None
    timeout: float | None = None
    force: bool = False
    cancels_fuses: bool = True  # that are set for its directory
    settle: float = float("inf")  # seconds to watch for a failure after the id is known, at most


class Order(NamedTuple):
    """One start, decided before anything is done."""

    request: StartRequest
    command: Command  # argv[0] is a path
    environ: Mapping[str, str]  # the agent's whole environment
    id: str
    at: float = 0.0  # when the order was prepared
    before: float | None = None  # when the session to resume was last written to
    removed: tuple[str, ...] = ()  # variables of the caller that the agent does not get
    added: tuple[tuple[str, str], ...] = ()  # variables that the agent gets beyond the caller's


def new_id() -> str:
    return os.urandom(6).hex()


def prepare_order(
    request: StartRequest,
    caller: Mapping[str, str],
    resumed: Observation | None = None,
    *,
    dry_run: bool = False,
) -> Order:
    """Return the exact start. In a dry run, its worktree does not exist yet. Raises UsageError for what
    this agent cannot do, StartFailed if it is not installed."""
    if not dry_run and not os.path.isdir(request.cwd):
        raise UsageError(f"not a directory: {request.cwd}")
    _check_text(request)
    adapter = load(request.adapter)
    _check_mode(request, adapter.permission_modes)
    inherited, removed = scrub(caller)
    cwd, launch_id = os.path.realpath(request.cwd), new_id()
    base = {**inherited, "PWD": cwd, **dict(request.environ), LAUNCH: launch_id}
    launch_request = LaunchRequest(
        prompt=request.prompt,
        cwd=cwd,
        environ=base,
        model=request.model,
        name=request.name,
        system_prompt=request.system_prompt,
        permission_mode=request.permission_mode,
        native=request.native,
        folder=_folder(caller, launch_id),
    )
    if resumed is None:
        command = adapter.launch(launch_request)
    else:
        command = adapter.resume(resumed, launch_request)
    environ = _environ(base, command, request)
    program = find_program(request.binary or command.argv[0], environ, cwd)
    dropped = {*removed, *(name for name in command.unset if name in caller)} - environ.keys()
    return Order(
        request=request,
        command=command._replace(
            argv=(program, *command.argv[1:]), settle_time=min(command.settle_time, request.settle)
        ),
        environ=environ,
        id=launch_id,
        at=time.time(),
        before=resumed.facts.last_activity_at if resumed is not None else None,
        removed=tuple(sorted(dropped)),
        added=tuple((name, value) for name, value in environ.items() if caller.get(name) != value),
    )


def _folder(caller: Mapping[str, str], launch_id: str) -> str:
    state = paths.state_directory(caller)
    return launches.launch_folder(paths.database_file(state), launch_id) if state is not None else ""


def _check_mode(request: StartRequest, modes: tuple[str, ...]) -> None:
    mode = request.permission_mode
    if mode is None or mode in modes:
        return
    hint = f"it has {', '.join(modes)}" if modes else "it has no permission modes"
    raise UsageError(f"{request.adapter} has no permission mode {mode!r}", hint)


def _check_text(request: StartRequest) -> None:
    """Raise UsageError for a label that is not UTF-8: the launch note is text. The agent itself may get
    any bytes."""
    labels = {
        "--name": request.name,
        "--group": request.group,
        "--spec": request.spec,
        "--model": request.model,
        "--branch": request.worktree.branch if request.worktree is not None else None,
        "--on-create": request.on_create,
        "--on-complete": request.on_complete,
        "--meta": " ".join(word for pair in request.meta for word in pair),
    }
    for option, value in labels.items():
        if value is not None and not is_utf8(value):
            raise UsageError(
                f"{option}: not UTF-8 text: {value!r}", "put these bytes into a file and name the file"
            )


def _environ(base: Mapping[str, str], command: Command, request: StartRequest) -> dict[str, str]:
    """Return the agent's environment. The user's values win over the adapter's, and these over the
    caller's. An override of the adapter extends the user's value, so it comes last. The
    launch id cannot be set: it marks the processes that the agent leaves behind."""
    inherited = {name: value for name, value in base.items() if name not in command.unset}
    ours = {**dict(command.override), LAUNCH: base[LAUNCH]}
    return {**inherited, **dict(command.set), **dict(request.environ), **ours}
