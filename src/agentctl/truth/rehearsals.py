"""Rehearsals of `doctor --live`: agents in a room of their own, which are nobody's sessions.

Whoever is outside the room does not see them in any list or event. What makes a process one of these is
no word in its environment, which anybody can set: it descends from the first process of another pid
namespace, and that one is the program that makes rooms, called for a rehearsal. From inside, the first
process has no parent that could be seen, so that a rehearsal sees itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agentctl.errors import Exhausted, Forbidden, Gone
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.system.program import KEEPER

PROGRAM = "agentctl.rehearsal.sandbox"  # run with `python -m`
WORD = "--rehearsal"  # its option for a rehearsal; the next word says who made it


class Room(NamedTuple):
    keeper: Process  # the first process in it
    maker: str  # address of whoever made it, `proc:PID@START`; empty: it cannot be told any more
    inside: tuple[Process, ...]


def rooms(table: Mapping[int, Process]) -> list[Room]:
    """All rehearsals there are, seen from outside."""
    found = []
    for process in table.values():
        if process.comm != KEEPER:  # the name that it gives itself: so not every process is asked
            continue
        try:
            maker = _maker(process)
        except Gone:  # and all that was in its room, if it had one
            maker = ""
            inside = [p for p in _all_below(process, table) if proc.current(p.identity) is None]
        else:
            inside = _all_below(process, table) if maker is not None else []
        if maker is not None:
            found.append(Room(process, maker, tuple(inside)))
    return found


def without(table: Mapping[int, Process]) -> Mapping[int, Process]:
    """The processes that are not in a rehearsal."""
    inside = {p.pid for room in rooms(table) for p in (room.keeper, *room.inside)}
    return {pid: process for pid, process in table.items() if pid not in inside} if inside else table


def _maker(process: Process) -> str | None:
    """Who made the room of which this is the first process; None: it is not one of a room. Raises
    Gone."""
    try:
        if process.parent == 0 or process.inner_pid() != 1:
            return None
        argv = process.argv
    except (Forbidden, Exhausted):  # nobody can tell: it is shown
        return None
    if process.ending or not process.alive or (not argv and _ends(process)):
        return ""  # its arguments are gone, and all in its room end
    own = argv[: argv.index("--")] if "--" in argv else argv
    if PROGRAM not in own or WORD not in own[:-1]:
        return None
    return own[own.index(WORD) + 1]


def _ends(process: Process) -> bool:
    """Whether it began to end after the table was read. Raises Gone."""
    now = proc.current(process.identity)
    if now is None:
        raise Gone(process.identity.address, "it has ended")
    return now.ending or not now.alive


def _all_below(keeper: Process, table: Mapping[int, Process]) -> list[Process]:
    return [p for p in table.values() if p is not keeper and _below(p, keeper, table)]


def _below(process: Process, keeper: Process, table: Mapping[int, Process]) -> bool:
    """Whoever loses its parent in there becomes the keeper's child."""
    seen: set[int] = set()
    above: Process | None = process
    while above is not None and above.pid not in seen:
        if above.parent == keeper.pid:
            return True
        seen.add(above.pid)
        above = table.get(above.parent)
    return False
