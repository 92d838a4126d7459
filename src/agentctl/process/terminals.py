"""Terminals that the user works at, among the processes of a session. A stop spares what runs there.

A tool of an agent may open terminals for the user, as `tmux new-session -d` does. All that starts there
inherits the agent's markers, also an editor with unsaved text. A stop spares a terminal if

- it is the controlling terminal of a member, and not the agent's own;
- no tool below the agent has opened it: agents run commands on terminals of their own, and type there
  themselves;
- the kernel's times say that input arrived after it was opened.

The stop then spares all processes at that terminal, the program that holds it open with its ancestors
among the members, and processes without a terminal that any of these started.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.light_typing import Iterable, Iterator, Sequence
from agentctl.process.relatives import Relatives, RemainingProcess, Table, ancestors, command_line
from agentctl.system import tty
from agentctl.system.proc import Process, ProcessIdentity

# Seconds after the opening in which input does not count: programs ask the terminal what it can do, and
# its answer arrives as input.
START = 2.0


class Terminals:
    """Create it while the agent lives, and use it until none of its processes is left."""

    def __init__(self, owner: Process | None) -> None:
        self._owner = owner
        self._own = _controlling(owner) if owner is not None else None
        self._tools: set[ProcessIdentity] = set()  # the agent, and processes once seen below it
        self._opened: set[int] = set()  # terminals that the tools opened

    def spare(self, relatives: Relatives, table: Table) -> Relatives:
        """Return the relatives, with those at a terminal of the user spared."""
        self._note_tools(relatives.members, table)
        by_terminal = self._other_terminals(relatives.members)
        if not by_terminal:
            return relatives
        holders = _find_holders(relatives.members)
        self._opened |= {number for number, by in holders.items() if self._is_tool(by, table)}
        used_terminals = dict(_find_used(by_terminal, self._opened))
        if not used_terminals:
            return relatives
        spared = dict(_find_spared(relatives.members, by_terminal, used_terminals, holders, table))
        return relatives._replace(
            members=tuple(each for each in relatives.members if each.pid not in spared),
            spared=(*relatives.spared, *spared.values()),
        )

    def _note_tools(self, members: Iterable[Process], table: Table) -> None:
        """Remember the processes below the agent: when it has ended, they have another parent."""
        if self._owner is None:
            return
        owner = table.get(self._owner.pid)
        if owner is None or owner.identity != self._owner.identity:
            return
        self._tools.add(owner.identity)
        self._opened |= _list_opened(owner)
        self._tools |= {each.identity for each in members if owner.pid in ancestors(table, each.pid)}

    def _is_tool(self, process: Process, table: Table) -> bool:
        return any(table[pid].identity in self._tools for pid in ancestors(table, process.pid))

    def _other_terminals(self, members: Iterable[Process]) -> dict[int, list[Process]]:
        """Return the members by controlling terminal, without those at the agent's own."""
        by_terminal: dict[int, list[Process]] = {}
        for process in members:
            number = _controlling(process)
            if number is not None and number != self._own:
                by_terminal.setdefault(number, []).append(process)
        return by_terminal


def _find_used(by_terminal: dict[int, list[Process]], opened: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the terminals that the user works at, with their names."""
    for number, processes in by_terminal.items():
        terminals = (_read_terminal(process) for process in processes)
        terminal = next((each for each in terminals if each is not None), None)
        if number in opened or terminal is None:
            continue
        if abs(terminal.typed_at - terminal.opened_at) > START:  # abs: the clock may have been set back
            yield number, terminal.name


def _find_spared(
    members: Sequence[Process],
    by_terminal: dict[int, list[Process]],
    used_terminals: dict[int, str],
    holders: dict[int, Process],
    table: Table,
) -> Iterator[tuple[int, RemainingProcess]]:
    member_pids = {process.pid for process in members}
    terminal_of = {process.pid: number for number, there in by_terminal.items() for process in there}
    for number, name in used_terminals.items():
        for process in by_terminal[number]:
            yield process.pid, _spare(process, "a person uses its terminal", name)
    around = {
        pid: used_terminals[number]
        for number, holder in holders.items()
        if number in used_terminals
        for pid in ancestors(table, holder.pid)
        if pid in member_pids and terminal_of.get(pid) not in used_terminals
    }
    for pid, name in around.items():
        yield pid, _spare(table[pid], "a person uses a terminal that it keeps open", name)
    roots = {
        **{
            pid: used_terminals[number]
            for pid, number in terminal_of.items()
            if number in used_terminals
        },
        **around,
    }
    for process in members:
        # the nearest ancestor at a terminal decides: below an unused terminal it is not spared
        nearest = next(
            (pid for pid in ancestors(table, process.pid) if pid in roots or pid in terminal_of), None
        )
        if process.pid not in roots and nearest is not None and nearest in roots:
            name = roots[nearest]
            yield process.pid, _spare(process, "started at a terminal that a person uses", name)


def _spare(process: Process, why: str, terminal: str) -> RemainingProcess:
    command = command_line(process)
    return RemainingProcess(process.pid, f"{command}: {why}, {terminal}", command, terminal)


def _find_holders(members: Iterable[Process]) -> dict[int, Process]:
    """Return the program that holds each terminal open."""
    return {number: process for process in members for number in _list_opened(process)}


def _list_opened(process: Process) -> set[int]:
    try:
        return tty.list_masters(process.identity)
    except SourceError:  # another user's process, or it has ended
        return set()


def _controlling(process: Process) -> int | None:
    try:
        return tty.find_controlling(process.identity)
    except SourceError:
        return None


def _read_terminal(process: Process) -> tty.Terminal | None:
    try:
        return tty.read_terminal(process.identity)
    except SourceError:
        return None
