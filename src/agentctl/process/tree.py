"""Which processes belong to a session, besides the one that runs it: those it has begotten, and those
it has left behind under another parent. Says who is to go and who is not; ends nobody."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from agentctl.errors import SourceError
from agentctl.process import detach, ours
from agentctl.process.kinship import Left, Table, Tree, command_of, line_of
from agentctl.process.ours import HOOK, LAUNCH
from agentctl.process.terminals import Terminals
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.system.program import SHIM
from agentctl.truth.model import EntryPoint, Observation, Session

DAEMON = "agentctl-daemon"


class Family:
    """What tells the processes of one session. Made while its owner lives, used until none is left."""

    def __init__(
        self,
        owner: Process | None,
        launch_id: str | None = None,
        markers: Iterable[tuple[str, str]] = (),
        *,
        pid_markers: Iterable[str] = (),
        among: Iterable[Session] = (),
        confine: str = "",
        force: bool = False,
    ) -> None:
        """`among`: other live sessions. A server that was started from this agent's shell serves them,
        too, and somebody may sit at a terminal that was opened there. `force`: then that goes, too."""
        self.owner = owner.identity if owner is not None else None
        others = [s.seen for s in among if s.seen.owner and s.seen.owner.identity != self.owner]
        self.servers = _owners(others, "daemon")
        self.terminals = _owners(others, "interactive")
        environ = _environ(owner) if owner is not None else {}
        self.launch_id = launch_id
        # sessions of their own have other launch ids than these
        self._own_launches = {launch_id, environ.get(LAUNCH)} - {None}
        self._markers = tuple(markers) if owner is not None else ()
        self._pid = _Pid.of(owner, pid_markers) if owner is not None else None
        self._confine = confine
        self._line: set[ProcessIdentity] = set()  # what we run in
        self._terminals = None if force else Terminals(owner)

    def shim(self, table: Table) -> Process | None:
        """The parent that waits for its end, or what that has become: its finishing work."""
        if self.launch_id is None:
            return None
        found = (p for p in table.values() if p.alive and p.comm in (SHIM, *INTERPRETERS))
        mine = (p for p in found if is_control(p) and _environ(p).get(LAUNCH) == self.launch_id)
        return next((p for p in mine if not _expiring(p)), None)

    def look(
        self, table: Table, known: AbstractSet[ProcessIdentity] = frozenset(), us: int | None = None
    ) -> Tree:
        """All of them in this table. `known`: those found before, whose children may be new."""
        called = detach.us() if us is None else us
        line = {table[pid].identity for pid in line_of(table, called) if pid in table}
        self._line |= line  # for good: when the agent is gone, our shell has another parent
        sight = _Sight(self, table, called)
        roots = [process for process in table.values() if process.identity in known]
        owner = table.get(self.owner.pid) if self.owner is not None else None
        if owner is not None and owner.identity == self.owner:
            roots.append(owner)
            # orphans come to the shim; once the owner has ended, also what its finishing work starts
            shim = self.shim(table)
            if shim is not None and shim.comm == SHIM:
                roots.append(shim)
        for root in roots:
            sight.descend(root)
        for process in self._marked(table):
            sight.meet(process)
        tree = sight.tree()
        return tree if self._terminals is None else self._terminals.spare(tree, table)

    def runs_us(self, process: Process) -> bool:
        """The shell that we were called in, and what that runs in."""
        return process.identity in self._line

    def is_hook(self, process: Process) -> bool:
        """The person's own command at the end of this launch: not a tool of the agent."""
        return _environ(process).get(HOOK, "").partition("/")[0] == self.launch_id

    def is_elsewhere(self, process: Process) -> bool:
        """Launched from inside this agent: a session of its own."""
        launch = _environ(process).get(LAUNCH)
        return launch is not None and launch not in self._own_launches

    def _marked(self, table: Table) -> Iterator[Process]:
        """By what every child inherits, whoever its parent is now."""
        if self.launch_id is None and not self._markers and self._pid is None:
            return
        for process in table.values():
            environ = _environ(process) if process.alive else {}
            if environ and self._inside(environ) and self._has_mark(process, environ):
                yield process

    def _has_mark(self, process: Process, environ: Mapping[str, str]) -> bool:
        """Ids first: they are the same in every container, and nobody else's."""
        if self.launch_id is not None and environ.get(LAUNCH) == self.launch_id:
            return True
        if self.owner is None or process.identity.start < self.owner.start:
            return False  # an older one's agent may have had the same pid
        if any(environ.get(name) == value for name, value in self._markers):
            return True
        return self._pid is not None and self._pid.is_in(environ, process)

    def _inside(self, environ: Mapping[str, str]) -> bool:
        """Tests see only their own processes; children of these are theirs anyway."""
        name, _, value = self._confine.partition("=")
        return not self._confine or environ.get(name) == value


class _Pid(NamedTuple):
    """The owner's pid, as its tools know it: in its own pid namespace."""

    names: frozenset[str]  # variables that hold it
    number: str
    namespace: str

    @classmethod
    def of(cls, owner: Process, names: Iterable[str]) -> _Pid | None:
        given = frozenset(names)
        if not given:
            return None
        try:
            if (space := owner.namespace) is not None:
                return cls(given, str(owner.inner_pid()), space)
        except SourceError:  # it has just ended
            pass
        # where it had the number that we know, nobody else had it; of another number nobody can tell
        return cls(given, str(owner.pid), proc.namespace())

    def is_in(self, environ: Mapping[str, str], process: Process) -> bool:
        if not any(environ.get(name) == self.number for name in self.names):
            return False
        try:
            return process.namespace == self.namespace
        except SourceError:
            return False


class _Sight:
    """One walk through one table."""

    def __init__(self, family: Family, table: Table, us: int) -> None:
        self._family = family
        self._table = table
        self._uid = os.geteuid()
        self._us = us
        self._above = line_of(table, family.owner.pid) if family.owner is not None else []
        self._children: dict[int, list[Process]] = {}
        for process in table.values():
            self._children.setdefault(process.parent, []).append(process)
        self._met: set[int] = set()
        self._members: list[Process] = []
        self._not_ours: list[Process] = []
        self._spared: list[Left] = []

    def descend(self, root: Process) -> None:
        queue = [root]
        while queue:
            parent = queue.pop(0)
            queue += [
                child
                for child in self._children.get(parent.pid, ())
                # younger than its parent, or the table was read while the pid changed hands
                if child.identity.start >= parent.identity.start and self._admit(child)
            ]

    def meet(self, process: Process) -> None:
        """Found by what it has inherited; as has all below one that is a session of its own."""
        line = [self._table[pid] for pid in line_of(self._table, process.pid)]
        apart = next((each for each in line if self._is_apart(each)), None)
        if process.pid in self._met or (apart is not None and apart.pid in self._met):
            return
        if apart is not None:
            self._spare(apart, "runs a session of its own")
        elif self._admit(process):
            self.descend(process)

    def _is_apart(self, process: Process) -> bool:
        """But one that our owner itself runs in says nothing of our owner's own."""
        own = process.identity in self._family.servers | self._family.terminals
        return own and process.pid not in self._above

    def tree(self) -> Tree:
        return Tree(tuple(self._members), tuple(self._not_ours), tuple(self._spared))

    def _admit(self, process: Process) -> bool:
        """Whether its children are to be looked at too."""
        if process.pid in self._met or process.identity == self._family.owner:
            return False
        self._met.add(process.pid)
        if not process.alive:
            return True  # a zombie has nothing to end; as a table is read, its children may still be its
        if is_control(process) or self._family.is_hook(process):
            return False
        if process.pid == self._us:
            self._spare(process, "this very agentctl")
            return True
        if process.pid == os.getpid():  # it works for that one, aside
            return True
        if self._family.runs_us(process):
            self._spare(process, "agentctl runs in it")
            return True  # what else that shell has started is the agent's
        if self._family.is_elsewhere(process):
            self._spare(process, "launched, a session of its own")
            return False
        if process.identity in self._family.servers:
            self._spare(process, "a server, with sessions of its own")
            return False
        if _uid(process) not in (self._uid, 0, None):  # 0 may be ours all the same: ask the kernel
            self._not_ours.append(process)
        else:
            self._members.append(process)
        return True

    def _spare(self, process: Process, why: str) -> None:
        self._met.add(process.pid)
        self._spared.append(Left(process.pid, f"{process.comm}: {why}", command_of(process)))


INTERPRETERS = frozenset({"python", "python3", *(f"python3.{minor}" for minor in range(11, 20))})


def is_control(process: Process) -> bool:
    """One of ours: a shim, or the work that it does at the end; the daemon, which comes to a shim as an
    orphan where an agent's tool has summoned it."""
    return process.comm in (SHIM, DAEMON) or (process.comm in INTERPRETERS and _called(process) != "")


def inside(owner: Process, table: Table) -> bool:
    """Whether we run inside the agent that this process is."""
    return owner.pid in line_of(table, os.getpid())[1:]


def _expiring(process: Process) -> bool:
    return _called(process) == "expire"


def _called(process: Process) -> str:
    try:
        return ours.called(process.argv)
    except SourceError:
        return ""


def _owners(seen: Iterable[Observation], entry_point: EntryPoint) -> frozenset[ProcessIdentity]:
    owners = (each.owner for each in seen if each.facts.entry_point == entry_point)
    return frozenset(owner.identity for owner in owners if owner is not None)


def _environ(process: Process) -> Mapping[str, str]:
    """Nothing where the kernel does not tell, or where it has just ended."""
    try:
        return process.environ()
    except SourceError:
        return {}


def _uid(process: Process) -> int | None:
    try:
        return process.uid
    except SourceError:
        return None
