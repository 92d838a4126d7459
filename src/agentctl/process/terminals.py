"""Terminals inside a session's family that a person uses: what runs at them is not ended with it.

A tool of an agent may open terminals for a person, as `tmux new-session -d` does. All that starts there
inherits the agent's marks, also the editor in which the person has not saved yet. The rule:

- it has a controlling terminal, and that is not the agent's own;
- no tool that runs below the agent has opened it: agents run commands on terminals of their own, and
  type there themselves;
- somebody has typed there after it was opened (the kernel keeps both times).

Then all that runs at that terminal is spared, with the program that has opened it (it ends with that
one), what that runs in, and what has no terminal and was started by any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agentctl.errors import SourceError
from agentctl.process.kinship import Left, Table, Tree, command_of, line_of
from agentctl.system import tty
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process

# Seconds after the opening in which nothing counts: programs ask the terminal what it can do, and read
# its answer as if it were typed.
START = 2.0


class Terminals:
    """Made while the agent lives, used until none of its family is left."""

    def __init__(self, owner: Process | None) -> None:
        self._owner = owner
        self._own = _controlling(owner) if owner is not None else None
        self._tools: set[ProcessIdentity] = set()  # have been seen below the agent, or are it
        self._opened: set[int] = set()  # terminals that these have opened

    def spare(self, tree: Tree, table: Table) -> Tree:
        """The same, without those at a person's terminal."""
        self._note_tools(tree.members, table)
        at = self._elsewhere(tree.members)
        if not at:
            return tree
        holders = _holders(tree.members)
        self._opened |= {number for number, by in holders.items() if self._is_tool(by, table)}
        used = dict(_used(at, self._opened))
        if not used:
            return tree
        kept = dict(_kept(tree.members, at, used, holders, table))
        return tree._replace(
            members=tuple(each for each in tree.members if each.pid not in kept),
            spared=(*tree.spared, *kept.values()),
        )

    def _note_tools(self, members: Iterable[Process], table: Table) -> None:
        """Now: once the agent is gone, they have another parent."""
        if self._owner is None:
            return
        now = table.get(self._owner.pid)
        if now is None or now.identity != self._owner.identity:
            return
        self._tools.add(now.identity)
        self._opened |= _opened_by(now)
        self._tools |= {each.identity for each in members if now.pid in line_of(table, each.pid)}

    def _is_tool(self, process: Process, table: Table) -> bool:
        return any(table[pid].identity in self._tools for pid in line_of(table, process.pid))

    def _elsewhere(self, members: Iterable[Process]) -> dict[int, list[Process]]:
        """Who is at which terminal that is not the agent's."""
        found: dict[int, list[Process]] = {}
        for process in members:
            number = _controlling(process)
            if number is not None and number != self._own:
                found.setdefault(number, []).append(process)
        return found


def _used(at: dict[int, list[Process]], opened: set[int]) -> Iterator[tuple[int, str]]:
    """The terminals that a person uses, each with its name."""
    for number, processes in at.items():
        uses = (_use(process) for process in processes)
        use = next((each for each in uses if each is not None), None)
        # not "later": a clock may be set back
        if number not in opened and use is not None and abs(use.typed_at - use.opened_at) > START:
            yield number, use.name


def _kept(
    members: Sequence[Process],
    at: dict[int, list[Process]],
    used: dict[int, str],
    holders: dict[int, Process],
    table: Table,
) -> Iterator[tuple[int, Left]]:
    own = {process.pid for process in members}
    known = {process.pid: number for number, there in at.items() for process in there}
    for number, name in used.items():
        for process in at[number]:
            yield process.pid, _left(process, "a person uses its terminal", name)
    around = {
        pid: used[number]
        for number, holder in holders.items()
        if number in used
        for pid in line_of(table, holder.pid)
        if pid in own and known.get(pid) not in used
    }
    for pid, name in around.items():
        yield pid, _left(table[pid], "a person uses a terminal that it keeps open", name)
    roots = {**{pid: used[number] for pid, number in known.items() if number in used}, **around}
    for process in members:
        # at a terminal that nobody uses, or started there, it goes
        above = next((pid for pid in line_of(table, process.pid) if pid in roots or pid in known), None)
        if process.pid not in roots and above in roots:
            yield process.pid, _left(process, "started at a terminal that a person uses", roots[above])


def _left(process: Process, why: str, name: str) -> Left:
    command = command_of(process)
    return Left(process.pid, f"{command}: {why}, {name}", command, name)


def _holders(members: Iterable[Process]) -> dict[int, Process]:
    """Who has opened which terminal."""
    return {number: process for process in members for number in _opened_by(process)}


def _opened_by(process: Process) -> set[int]:
    try:
        return tty.opened_by(process.identity)
    except SourceError:  # another user's, or it has ended
        return set()


def _controlling(process: Process) -> int | None:
    try:
        return tty.controlling(process.identity)
    except SourceError:
        return None


def _use(process: Process) -> tty.Use | None:
    try:
        return tty.use_by(process.identity)
    except SourceError:
        return None
