"""Live agents that somebody else started in a directory that we launch an agent into: no lock keeps the
two apart, and each may undo the other's work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from agentctl.process import tree
from agentctl.system import proc
from agentctl.truth.model import Session


def beside(launched: Session, live: Iterable[Session]) -> list[Session]:
    """Those that work in its very directory. Not the agent that we are called by, which knows."""
    directory = launched.launch.cwd if launched.launch is not None else None
    if directory is None:
        return []
    table = proc.read_table()
    real = os.path.realpath(directory)
    found = [session for session in live if session.launch is None and _works_in(session, real)]
    return [each for each in found if each.seen.owner and not tree.inside(each.seen.owner, table)]


def sentence(others: Sequence[Session]) -> str:
    """For people, on one line."""
    first = others[0].seen
    pid = first.owner.pid if first.owner is not None else 0
    named = f"{first.adapter} {first.session_id or f'pid:{pid}'} (pid {pid})"
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    works, was = ("work", "were") if more else ("works", "was")
    return f"{named}{more} {works} in the same directory, and {was} not launched by agentctl"


def _works_in(session: Session, real: str) -> bool:
    owner, told = session.seen.owner, session.seen.facts.cwd
    if owner is None:
        return False
    known = told if told is not None and told.startswith("/") and "\0" not in told else owner.cwd
    return known is not None and os.path.realpath(known) == real
