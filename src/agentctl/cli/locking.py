"""What `lock`, `locks` and `unlock` do, and how it is shown."""

from __future__ import annotations

import json
import os
import time

from agentctl import paths, text
from agentctl.cli import answer
from agentctl.durations import age, left, written
from agentctl.errors import SourceError, Unreachable, UsageError
from agentctl.paths import home
from agentctl.state import locks
from agentctl.state.column import is_text
from agentctl.state.lock import Lock
from agentctl.truth.model import Problem
from agentctl.view import table
from agentctl.view.table import Cell, Column
from agentctl.wire import state_shapes

LAYOUT = (
    Column("DIRECTORY", 20),
    Column("HELD BY", 24),
    Column("SINCE", 8, goes=2),
    Column("UNTIL", 8, goes=1),
)


def show_held(*, as_json: bool) -> int:
    """Exit code 1 where they cannot be read: an empty list would be a wrong answer."""
    state = paths.state_directory(os.environ)
    found: list[Lock] = []
    problems: list[Problem] = []
    try:
        found = locks.held(paths.notes_file(state)) if state is not None else []
    except SourceError as error:
        problems = [Problem("", error.kind, error.advice, error.source)]
    if as_json:
        print(json.dumps(state_shapes.locks(found, problems), indent=1))
    elif found:
        print("\n".join(table.render(LAYOUT, _rows(found), text.columns(), colour=text.coloured())))
    elif not problems:
        print("no directory is locked")
    if not as_json:
        answer.show_problems(problems)
    return 1 if problems else 0


def acquire(
    directory: str, by: str | None, reason: str | None, ttl: float | None, *, as_json: bool
) -> int:
    """Raises Refused where somebody holds it."""
    for given in (by, reason):
        if given is not None and not is_text(given):
            raise UsageError(f"not UTF-8 text: {given!r}")
    lock = locks.acquire(_notes(), directory, by or login(), reason, ttl)
    if as_json:
        print(json.dumps(state_shapes.locks([lock]), indent=1))
        return 0
    until = f" for {written(ttl)}" if ttl is not None else ""
    print(text.one_line(f"locked {lock.directory}{until}; agentctl unlock releases it"))
    return 0


def release(directory: str, *, force: bool, as_json: bool) -> int:
    """Raises NotFound where nobody holds it, Refused where a launched agent does."""
    gone = locks.release(_notes(), directory, force=force)
    if as_json:
        print(json.dumps(state_shapes.locks(gone), indent=1))
        return 0
    for lock in gone:
        print(text.one_line(f"released {lock.directory}, held by {lock.holder}"))
    return 0


def login() -> str:
    """The name a person is known by here. A container's uid may have none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("LOGNAME") or os.environ.get("USER") or f"uid {os.getuid()}"


def _notes() -> str:
    state = paths.state_directory(os.environ)
    if state is None:
        raise Unreachable("no home is known to keep locks in", "set AGENTCTL_HOME")
    return paths.notes_file(state)


def _rows(found: list[Lock]) -> list[list[Cell]]:
    now, place = time.time(), home(os.environ)
    return [
        [
            Cell(text.one_line(text.tilde(lock.directory, place)), "bold", keep_end=True),
            Cell(text.one_line(lock.holder)),
            Cell(f"{age(now - lock.created_at)} ago"),
            Cell(_until(lock, now), "magenta" if lock.foreign else ""),
        ]
        for lock in found
    ]


def _until(lock: Lock, now: float) -> str:
    if lock.foreign:
        return "not known"
    if lock.identity is not None:
        return "it ends"
    return f"in {left(lock.expires_at - now)}" if lock.expires_at is not None else "released"
