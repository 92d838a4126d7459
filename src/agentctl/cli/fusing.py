"""What `fuse` does, and how it is shown."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agentctl import paths, text
from agentctl.cli import answer
from agentctl.config import settings
from agentctl.durations import age, left
from agentctl.errors import Ambiguous, NoDaemon, NotFound, Refused, SourceError, Unreachable, UsageError
from agentctl.paths import home
from agentctl.state import fuse as clocks
from agentctl.state import fuses, locks
from agentctl.state.column import is_text
from agentctl.state.fuse import BURNING, CANCELLED, FIRING, Action, Fuse, Moment
from agentctl.truth.model import Problem
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import fuse_shapes

LAYOUT = (
    Column("FUSE", 8),
    Column("BURNS", 10),
    Column("ON", 16),
    Column("DOES", 16, goes=1),
    Column("LABEL", 8, goes=2),
)
NAME = re.compile("[a-z0-9_.-]{1,64}")
CANDIDATES = 5  # in a message
NOT_TEXT = "put those bytes in a script, and give its name here"


def notes() -> str:
    state = paths.state_directory(os.environ)
    if state is None:
        raise Unreachable("no home is known to keep fuses in", "set AGENTCTL_HOME")
    return paths.notes_file(state)


def actions(*, stop: bool, run: str | None, emit: str | None, webhook: str | None) -> tuple[Action, ...]:
    """In the order in which they are done. Raises UsageError."""
    if run is not None and not run.strip():
        raise UsageError("an empty command", "example: --run 'make clean'")
    if run is not None and not is_text(run):
        raise UsageError(f"--run: not UTF-8 text: {run!r}", NOT_TEXT)
    if emit is not None and not NAME.fullmatch(emit):
        raise UsageError(f"no name for an event: {emit!r}", "a-z, 0-9, _ . and - make one: build.late")
    if webhook is not None:
        _check_webhook(webhook)
    given = (("run", run), ("emit", emit), ("webhook", webhook))
    found = [Action("stop")] if stop else []
    found += [Action(do, what) for do, what in given if what is not None]
    if not found:
        raise UsageError("a fuse that does nothing", "give it --stop, --run, --emit or --webhook")
    return tuple(found)


def _check_webhook(webhook: str) -> None:
    """An address without a secret in it, or the name of a target: a fuse is a row of our database, and
    secrets are in the settings and nowhere else."""
    from agentctl.urls import parsed

    if Action("webhook", webhook).by_name:
        known = settings.load(os.environ).webhooks
        if webhook not in known:
            named = (
                f"known: {', '.join(known)}" if known else "[webhooks.NAME] in the settings makes one"
            )
            raise UsageError(f"--webhook: no webhook named {webhook!r}", named)
        return
    try:
        address = parsed(webhook)
    except ValueError as error:
        raise UsageError(f"--webhook: {error}", "example: --webhook https://example.org/x") from error
    if address.secret:
        raise UsageError(
            "--webhook: an address with a user, a password or a query may hold a secret, and is stored",
            "put it into the settings, as url of [webhooks.NAME], and give its name: --webhook NAME",
        )


def light(what: str, within: float, to_do: tuple[Action, ...], label: str | None) -> Fuse:
    """Raises UsageError, NotFound, Ambiguous; Refused where the session has ended."""
    if within <= 0:
        raise UsageError("a fuse that is over at once", "example: --in 10m")
    if label is not None and not is_text(label):
        raise UsageError(f"not UTF-8 text: {label!r}")
    if is_directory(what):
        directory = _directory(what)
        if not os.path.isdir(directory):
            raise UsageError(f"not a directory: {directory}")
        return fuses.light(notes(), to_do, within, directory=directory, cwd=directory, label=label)
    session, _ = answer.one(what)
    seen = session.seen
    if session.verdict.status == "stopped":
        raise Refused(
            f"session {seen.session_id} has ended", "a fuse on a directory needs no session in it"
        )
    if seen.session_id is None:
        raise Refused(f"{what} has no session yet", "a fuse is on a session or on a directory")
    named = (seen.adapter, seen.session_id)
    return fuses.light(notes(), to_do, within, session=named, cwd=seen.facts.cwd, label=label)


def is_directory(what: str) -> bool:
    """A path rather than an id: it has a slash, is `.` or `..`, or names a directory that is there."""
    return "/" in what or what in (".", "..", "~") or os.path.isdir(what)


def matching(what: str, *, several: bool = False) -> list[Fuse]:
    """By the id of a fuse, by its directory, or by the session that it is on; of ids a prefix will do.
    Raises NotFound, Ambiguous where several are not meant."""
    lit = fuses.lit(notes())
    found = [each for each in lit if each.id == what]
    if not found and is_directory(what):
        directory = _directory(what)
        found = [each for each in lit if each.directory == directory]
    elif not found and what:
        found = [
            each
            for each in lit
            if any(known and known.startswith(what) for known in (each.id, each.session_id))
        ]
    if not found:
        raise NotFound(f"no fuse burns on {what!r}", "agentctl fuse list shows those that do")
    if len(found) > 1 and not several:
        named = ", ".join(f"{each.id} ({_does(each)})" for each in found[:CANDIDATES])
        more = f" and {len(found) - CANDIDATES} more" if len(found) > CANDIDATES else ""
        raise Ambiguous(f"{what!r} could be {len(found)} fuses", f"{named}{more}")
    return found


def attend(*, no_daemon: bool) -> int:
    """See to it that somebody burns it down. The fuse is set either way."""
    from agentctl.cli import daemon_parts
    from agentctl.daemon_client import start

    try:
        with start.ensure(os.environ, no_daemon=no_daemon) as client:
            daemon_parts.warn(client, daemon_parts.NOT_FOR_AGENTS)
    except NoDaemon:
        warn_of_nobody()
    return 0


def warn_of_nobody() -> None:
    print("agentctl: nobody burns it down until a daemon runs: agentctl daemon start", file=sys.stderr)


def tell(done: Sequence[Fuse], verb: str, *, as_json: bool) -> None:
    now = clocks.now()
    if as_json:
        print(json.dumps(fuse_shapes.fuses(done, now), indent=1))
        return
    for each in done:
        when = f": in {left(each.left(now))} {_does(each)}" if each.state == BURNING else ""
        print(text.one_line(f"{each.id} {verb}, on {each.on}{when}"), flush=True)


def show(*, settled: bool, as_json: bool) -> int:
    """Exit code 1 where they cannot be read: an empty list would be a wrong answer."""
    problems: list[Problem] = []
    found: list[Fuse] = []
    try:
        found = fuses.lit(notes())
        if settled:
            over = [each for each in fuses.recorded(notes()) if each.settled_at is not None]
            found += sorted(over, key=lambda each: -(each.settled_at or 0.0))
    except SourceError as error:
        problems = [Problem("", error.kind, error.advice, error.source)]
    now = clocks.now()
    if as_json:
        print(json.dumps(fuse_shapes.fuses(found, now, problems), indent=1))
        return 1 if problems else 0
    if found:
        rows = [_row(each, now) for each in found]
        print("\n".join(table.render(LAYOUT, rows, text.columns(), colour=text.coloured())))
    elif not problems:
        print("no fuse burns" + ("" if settled else "; agentctl fuse list --all shows what has"))
    answer.show_problems(problems)
    if any(each.state == BURNING and each.launch_id is None for each in found) and not _attended():
        warn_of_nobody()
    return 1 if problems else 0


def _attended() -> bool:
    from agentctl.daemon_client import lock_file

    state = paths.state_directory(os.environ)
    return state is not None and lock_file.proven(state) is not None


def _directory(what: str) -> str:
    return locks.real_path(os.path.expanduser(what))


def _row(fuse: Fuse, now: Moment) -> list[Cell]:
    colour = "red" if fuse.state == "failed" else "dim" if fuse.settled_at is not None else ""
    return [
        Cell(fuse.id, "bold" if fuse.settled_at is None else "dim"),
        Cell(_burns(fuse, now), colour),
        Cell(text.one_line(text.tilde(fuse.on, home(os.environ))), keep_end=fuse.directory is not None),
        Cell(text.one_line(told(fuse))),
        Cell(text.one_line(fuse.label or "")),
    ]


def _burns(fuse: Fuse, now: Moment) -> str:
    if fuse.settled_at is not None:
        return f"{fuse.state} {age(time.time() - fuse.settled_at)} ago"
    if fuse.state == FIRING:
        return "firing"
    seconds = fuse.left(now)
    return f"in {left(seconds)}" if seconds > 0 else f"overdue {age(-seconds)}"


def told(fuse: Fuse) -> str:
    """What it does; of one that was put out why, of one that failed at what."""
    if fuse.state == CANCELLED:
        return fuse.reason or ""
    failed = [each for each in fuse.results if each is not None and not each["ok"]]
    return "; ".join(f"{each['do']} failed: {_why(each)}" for each in failed) or _does(fuse)


def _why(result: Mapping[str, Any]) -> str:
    if result.get("error"):
        return str(result["error"])
    if result["do"] == "run":
        return f"exit code {result['code']}, see {result['output']}"
    left = [each for each in result["stopped"] if each["error"] or each["survivors"]]
    return ", ".join(f"{each['id'] or '?'}: {each['error'] or 'not all of it ended'}" for each in left)


def _does(fuse: Fuse) -> str:
    shown = [action.shown() for action in fuse.actions]
    return "; ".join(" ".join((each["do"], each.get("what", ""))).strip() for each in shown)
