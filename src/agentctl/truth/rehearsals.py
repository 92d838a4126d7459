"""Rehearsals of `doctor --live`: agents in a sandbox, whose sessions are not the user's.

They are in no list and no event outside the sandbox. A process is recognised as one of them by its
ancestry, not by its environment, which any process can set: it descends from the first process of
another pid namespace, and that one is our sandbox program, started for a rehearsal. Inside, the first
process has no visible parent, so a rehearsal sees itself.
"""

from __future__ import annotations

from agentctl.errors import Exhausted, Forbidden, Gone
from agentctl.light_typing import Mapping, NamedTuple
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.system.program import KEEPER

PROGRAM = "agentctl.rehearsal.sandbox"  # run with `python -m`
WORD = "--rehearsal"  # its option for a rehearsal; the next word is the address of its maker


class Sandbox(NamedTuple):
    keeper: Process  # the first process in it
    maker: str  # address of the process that made it, `proc:PID@START`; empty: no longer known
    processes: tuple[Process, ...]


def find_sandboxes(table: Mapping[int, Process]) -> list[Sandbox]:
    """Return all rehearsals, as seen from outside."""
    sandboxes = []
    for process in table.values():
        if process.comm != KEEPER:  # the name that it gives itself; a cheap first filter
            continue
        try:
            maker = _read_maker(process)
        except Gone:  # all processes in its sandbox end with it
            maker = ""
            inside = [p for p in _find_below(process, table) if proc.find_process(p.identity) is None]
        else:
            inside = _find_below(process, table) if maker is not None else []
        if maker is not None:
            sandboxes.append(Sandbox(process, maker, tuple(inside)))
    return sandboxes


def exclude_rehearsals(table: Mapping[int, Process]) -> Mapping[int, Process]:
    """Return the processes that are not in a rehearsal."""
    inside = {p.pid for box in find_sandboxes(table) for p in (box.keeper, *box.processes)}
    return {pid: process for pid, process in table.items() if pid not in inside} if inside else table


def _read_maker(process: Process) -> str | None:
    """Return the address of the process that made this keeper's sandbox, empty if it is no longer known;
    None if this is no keeper. Raises Gone."""
    try:
        if process.parent == 0 or process.read_inner_pid() != 1:
            return None
        argv = process.argv
    except (Forbidden, Exhausted):  # not known, so it is shown
        return None
    if process.is_ending or not process.is_alive or (not argv and _is_ending(process)):
        return ""  # its arguments are gone, and its sandbox ends
    own = argv[: argv.index("--")] if "--" in argv else argv
    if PROGRAM not in own or WORD not in own[:-1]:
        return None
    return own[own.index(WORD) + 1]


def _is_ending(process: Process) -> bool:
    """Return whether it began to end after the table was read. Raises Gone."""
    now = proc.find_process(process.identity)
    if now is None:
        raise Gone(process.identity.address, "it has ended")
    return now.is_ending or not now.is_alive


def _find_below(keeper: Process, table: Mapping[int, Process]) -> list[Process]:
    return [p for p in table.values() if p is not keeper and _is_below(p, keeper, table)]


def _is_below(process: Process, keeper: Process, table: Mapping[int, Process]) -> bool:
    """Return whether the keeper is an ancestor. It adopts every orphan of its sandbox."""
    visited: set[int] = set()
    ancestor: Process | None = process
    while ancestor is not None and ancestor.pid not in visited:
        if ancestor.parent == keeper.pid:
            return True
        visited.add(ancestor.pid)
        ancestor = table.get(ancestor.parent)
    return False
