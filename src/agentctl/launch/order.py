"""From what a person asks for to one exact start: the program, its words, its environment."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from agentctl import paths
from agentctl.adapters.environment import scrubbed
from agentctl.adapters.plans import Command, LaunchRequest
from agentctl.adapters.registry import load
from agentctl.errors import UsageError
from agentctl.launch.program import resolved
from agentctl.process.ours import LAUNCH
from agentctl.state import launches
from agentctl.state.column import is_text
from agentctl.truth.model import PROMPT_CAP, Observation, Worktree

NOT_TEXT = "put those bytes in a script or a file, and give its name here"


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
    cancels_fuses: bool = True  # that burn in its directory
    before: float | None = None  # when the session to go on with was last written to
    prompt: str | None = None  # its beginning, for the launch note


def new_id() -> str:
    return os.urandom(6).hex()


class Wish(NamedTuple):
    """One start as a person asks for it."""

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
    binary: str | None = None  # instead of the one that is found
    worktree: Worktree | None = None
    on_create: str | None = None
    on_complete: str | None = None
    timeout: float | None = None
    force: bool = False
    cancels_fuses: bool = True
    settle: float = float("inf")  # seconds to stay after the id, at most


class Prepared(NamedTuple):
    order: Order
    removed: tuple[str, ...]  # variables of the caller that the agent does not get
    added: tuple[tuple[str, str], ...]  # and those it gets beyond the caller's


def prepared(
    wish: Wish, caller: Mapping[str, str], resumed: Observation | None = None, *, foreseen: bool = False
) -> Prepared:
    """`foreseen`: its directory is yet to be made. Raises UsageError for what this agent cannot do,
    StartFailed where it is not installed."""
    if not foreseen and not os.path.isdir(wish.cwd):
        raise UsageError(f"not a directory: {wish.cwd}")
    _check_text(wish)
    adapter = load(wish.adapter)
    _check_mode(wish, adapter.permission_modes)
    kept, removed = scrubbed(caller)
    cwd, launch_id = os.path.realpath(wish.cwd), new_id()
    given = {**kept, "PWD": cwd, **dict(wish.environ), LAUNCH: launch_id}
    request = LaunchRequest(
        wish.prompt,
        cwd,
        given,
        wish.model,
        wish.name,
        wish.system_prompt,
        wish.permission_mode,
        wish.native,
        _folder(caller, launch_id),
    )
    command = adapter.launch(request) if resumed is None else adapter.resume(resumed, request)
    environ = _environ(given, command, wish)
    path = resolved(wish.binary or command.argv[0], environ, cwd)
    exact = command._replace(argv=(path, *command.argv[1:]), settles=min(command.settles, wish.settle))
    order = _order(wish, exact, environ, launch_id)
    if resumed is not None:
        order = order._replace(before=resumed.facts.last_activity_at)
    gone = {*removed, *(name for name in command.unset if name in caller)}
    added = tuple((name, value) for name, value in environ.items() if caller.get(name) != value)
    return Prepared(order, tuple(sorted(gone - environ.keys())), added)


def _folder(caller: Mapping[str, str], launch_id: str) -> str:
    state = paths.state_directory(caller)
    return launches.folder(paths.notes_file(state), launch_id) if state is not None else ""


def _check_mode(wish: Wish, known: tuple[str, ...]) -> None:
    mode = wish.permission_mode
    if mode is None or mode in known:
        return
    what = f"it knows {', '.join(known)}" if known else "it has none"
    raise UsageError(f"{wish.adapter} has no permission mode {mode!r}", what)


def _check_text(wish: Wish) -> None:
    """What is noted of a launch is text. What the agent itself is given may be any bytes."""
    stored = {
        "--name": wish.name,
        "--group": wish.group,
        "--spec": wish.spec,
        "--model": wish.model,
        "--branch": wish.worktree.branch if wish.worktree is not None else None,
        "--on-create": wish.on_create,
        "--on-complete": wish.on_complete,
        "--meta": " ".join(word for pair in wish.meta for word in pair),
    }
    for option, given in stored.items():
        if given is not None and not is_text(given):
            raise UsageError(f"{option}: not UTF-8 text: {given!r}", NOT_TEXT)


def _environ(given: Mapping[str, str], command: Command, wish: Wish) -> dict[str, str]:
    """What the person says wins over what the adapter says, which wins over what the caller has; what
    the adapter adds to a value of theirs is no other value. Our own marker is nobody's to set: by it we
    find what the agent leaves behind."""
    kept = {name: value for name, value in given.items() if name not in command.unset}
    ours = {**dict(command.extended), LAUNCH: given[LAUNCH]}
    return {**kept, **dict(command.set), **dict(wish.environ), **ours}


def _order(wish: Wish, command: Command, environ: Mapping[str, str], launch_id: str) -> Order:
    return Order(
        wish.adapter,
        command,
        environ,
        launch_id,
        wish.name,
        wish.group,
        wish.spec,
        wish.meta,
        wish.model,
        wish.worktree,
        wish.on_create,
        wish.on_complete,
        wish.timeout,
        wish.force,
        time.time(),
        wish.cancels_fuses,
        prompt=wish.prompt[:PROMPT_CAP].encode(errors="replace").decode(),
    )
