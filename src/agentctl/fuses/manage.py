"""Set, extend, cancel and list fuses."""

from __future__ import annotations

import os
import re

from agentctl import paths
from agentctl.config import settings
from agentctl.errors import Ambiguous, NotFound, Refused, SourceError, UsageError
from agentctl.light_typing import Mapping, NamedTuple
from agentctl.state import fuses, locks
from agentctl.state.db import is_utf8
from agentctl.state.fuses import Action, Fuse
from agentctl.text import join_some
from agentctl.truth.model import Problem, Session

NAME = re.compile("[a-z0-9_.-]{1,64}")
CANDIDATES = 5  # in a message
CANCEL_REASON = "cancelled by a person"  # part of the JSON shape: do not reword
NOT_TEXT = "put those bytes in a script, and give its name here"


class Extension(NamedTuple):
    fuse: Fuse
    needs_daemon: bool  # False: the shim of its launch fires it


class FuseList(NamedTuple):
    fuses: list[Fuse]
    problems: list[Problem]  # not empty: the list is not complete


def database(environ: Mapping[str, str]) -> str:
    """Raises Unreachable if there is no state directory."""
    return paths.database_file(paths.require_state_directory(environ))


def make_actions(
    environ: Mapping[str, str],
    *,
    stop: bool = False,
    run: str | None = None,
    emit: str | None = None,
    webhook: str | None = None,
) -> tuple[Action, ...]:
    """Return the actions in the order in which they run. Raises UsageError."""
    if run is not None and not run.strip():
        raise UsageError("--run: the command is empty", "example: --run 'make clean'")
    if run is not None and not is_utf8(run):
        raise UsageError(f"--run: not UTF-8 text: {run!r}", NOT_TEXT)
    if emit is not None and not NAME.fullmatch(emit):
        raise UsageError(
            f"--emit: not an event name: {emit!r}", "use a-z, 0-9, _ . and -, for example build.late"
        )
    if webhook is not None:
        _check_webhook(webhook, environ)
    options = (("run", run), ("emit", emit), ("webhook", webhook))
    actions = [Action("stop")] if stop else []
    actions += [Action(do, what) for do, what in options if what is not None]
    if not actions:
        raise UsageError("missing action", "give --stop, --run, --emit or --webhook")
    return tuple(actions)


def _check_webhook(webhook: str, environ: Mapping[str, str]) -> None:
    """Accept the name of a webhook, or an address without a secret: the database stores fuses, and
    secrets belong in the settings only."""
    from agentctl.urls import parse_url

    if Action("webhook", webhook).is_named_target:
        names = settings.load(environ).webhooks
        if webhook not in names:
            hint = f"known: {', '.join(names)}" if names else "add [webhooks.NAME] to the settings"
            raise UsageError(f"--webhook: no webhook named {webhook!r}", hint)
        return
    try:
        address = parse_url(webhook)
    except ValueError as error:
        raise UsageError(f"--webhook: {error}", "example: --webhook https://example.org/x") from error
    if address.may_hold_secret:
        raise UsageError(
            "--webhook: an address with a user, a password or a query may hold a secret, and is stored",
            "put it into the settings, as url of [webhooks.NAME], and give its name: --webhook NAME",
        )


def is_directory(target: str) -> bool:
    """Return True for a path: it has a slash, is `.`, `..` or `~`, or names an existing directory."""
    return "/" in target or target in (".", "..", "~") or os.path.isdir(target)


def set_on_directory(
    environ: Mapping[str, str],
    path: str,
    seconds: float,
    actions: tuple[Action, ...],
    label: str | None = None,
) -> Fuse:
    """Raises UsageError."""
    _check_values(seconds, label)
    directory = _real_directory(path)
    if not os.path.isdir(directory):
        raise UsageError(f"not a directory: {directory}")
    return fuses.set_fuse(
        database(environ), actions, seconds, directory=directory, cwd=directory, label=label
    )


def set_on_session(
    environ: Mapping[str, str],
    session: Session,
    seconds: float,
    actions: tuple[Action, ...],
    label: str | None = None,
) -> Fuse:
    """Raises UsageError; Refused if the session has ended or has no id yet."""
    _check_values(seconds, label)
    observation = session.observation
    if session.verdict.status == "stopped":
        raise Refused(
            f"session {observation.session_id} has ended",
            "a fuse on a directory needs no session: agentctl fuse set DIR",
        )
    if observation.session_id is None:
        pid = observation.owner.pid if observation.owner is not None else "?"
        raise Refused(f"pid:{pid} has no session yet", "set the fuse on its directory instead")
    key = (observation.adapter, observation.session_id)
    return fuses.set_fuse(
        database(environ), actions, seconds, session=key, cwd=observation.facts.cwd, label=label
    )


def extend_fuse(
    environ: Mapping[str, str], target: str, *, by: float | None = None, within: float | None = None
) -> Extension:
    """Move the due time: `by` seconds later, or to `within` seconds from now. Raises UsageError,
    NotFound, Ambiguous, Refused."""
    if by is None and within is None:
        raise UsageError("missing --by or --in", "example: --by 10m, or --in 10m (from now)")
    if by is not None and within is not None:
        raise UsageError("--by and --in exclude each other", "give one of them")
    (before,) = find_fuses(environ, target)
    seconds = within if within is not None else by or 0.0
    fuse = fuses.extend_fuse(database(environ), before.id, seconds, from_now=within is not None)
    is_shims = fuse.launch_id is not None and fuse.due_at >= before.due_at
    return Extension(fuse, needs_daemon=not is_shims)


def cancel_fuses(environ: Mapping[str, str], target: str, *, several: bool = False) -> list[Fuse]:
    """Raises NotFound, Ambiguous, Refused."""
    matches = find_fuses(environ, target, several=several)
    return [fuses.cancel_fuse(database(environ), fuse.id, CANCEL_REASON) for fuse in matches]


def find_fuses(environ: Mapping[str, str], target: str, *, several: bool = False) -> list[Fuse]:
    """Find fuses by their id, directory or session; a prefix of an id is enough. Raises NotFound;
    Ambiguous if several match and `several` is False."""
    active = fuses.list_active(database(environ))
    matches = [fuse for fuse in active if fuse.id == target]
    if not matches and is_directory(target):
        directory = _real_directory(target)
        matches = [fuse for fuse in active if fuse.directory == directory]
    elif not matches and target:
        matches = [
            fuse
            for fuse in active
            if any(name and name.startswith(target) for name in (fuse.id, fuse.session_id))
        ]
    if not matches:
        raise NotFound(f"no fuse {target!r}", "list them: agentctl fuse list")
    if len(matches) > 1 and not several:
        names = [f"{fuse.id} ({describe_actions(fuse)})" for fuse in matches]
        raise Ambiguous(f"{target!r} matches {len(matches)} fuses", join_some(names, CANDIDATES))
    return matches


def list_fuses(environ: Mapping[str, str], *, settled: bool = False) -> FuseList:
    """Return the fuses that are not settled, the next one first; `settled` adds the others."""
    path = database(environ)
    try:
        rows = fuses.list_active(path)
        if settled:
            past = [fuse for fuse in fuses.list_fuses(path) if fuse.settled_at is not None]
            rows += sorted(past, key=lambda fuse: -(fuse.settled_at or 0.0))
    except SourceError as error:
        return FuseList([], [Problem("", error.kind, error.advice, error.source)])
    return FuseList(rows, [])


def describe_actions(fuse: Fuse) -> str:
    actions = [action.public_form() for action in fuse.actions]
    return "; ".join(" ".join((each["do"], each.get("what", ""))).strip() for each in actions)


def _check_values(seconds: float, label: str | None) -> None:
    if seconds <= 0:
        raise UsageError("--in must be more than 0", "example: --in 10m")
    if label is not None and not is_utf8(label):
        raise UsageError(f"--label: not UTF-8 text: {label!r}")


def _real_directory(path: str) -> str:
    return locks.real_path(os.path.expanduser(path))
