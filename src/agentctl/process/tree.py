"""Find the processes of a session besides its owner: its descendants, and those that have another parent
by now. Says which of them a stop ends and which it spares; signals none."""

from __future__ import annotations

import os

from agentctl.errors import SourceError
from agentctl.light_typing import Iterable, Iterator, Mapping, NamedTuple
from agentctl.light_typing import Set as AbstractSet
from agentctl.process import detach, ours
from agentctl.process.ours import HOOK, LAUNCH
from agentctl.process.relatives import Relatives, RemainingProcess, Table, ancestors, command_line
from agentctl.process.terminals import Terminals
from agentctl.system import proc
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.system.program import SHIM
from agentctl.truth.model import EntryPoint, Observation, Session

DAEMON = "agentctl-daemon"
INTERPRETERS = frozenset({"python", "python3", *(f"python3.{minor}" for minor in range(11, 20))})


class ProcessFamily:
    """The marks of one session's processes. Create it while the owner lives, and use it until none of
    them is left."""

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
        """`among`: the live sessions. Servers and terminals that were started in this agent's shell may
        run other sessions, which must live. `force`: do not spare the terminals that the user uses."""
        self.owner = owner.identity if owner is not None else None
        others = [
            s.observation
            for s in among
            if s.observation.owner and s.observation.owner.identity != self.owner
        ]
        self.servers = _owners(others, "daemon")
        self.terminals = _owners(others, "interactive")
        environ = _environ(owner) if owner is not None else {}
        self.launch_id = launch_id
        # a process with another launch id than these belongs to a session of its own
        self._own_launches = {launch_id, environ.get(LAUNCH)} - {None}
        self._markers = tuple(markers) if owner is not None else ()
        self._pid_marker = _PidMarker.of(owner, pid_markers) if owner is not None else None
        self._confine = confine
        self._our_ancestors: set[ProcessIdentity] = set()
        self._terminals = None if force else Terminals(owner)

    def find_shim(self, table: Table) -> Process | None:
        """Return the shim of the launch, or the process that finishes its work."""
        if self.launch_id is None:
            return None
        candidates = (p for p in table.values() if p.is_alive and p.comm in (SHIM, *INTERPRETERS))
        shims = (p for p in candidates if is_control(p) and _environ(p).get(LAUNCH) == self.launch_id)
        return next((p for p in shims if _program_name(p) != "expire"), None)

    def find_relatives(
        self,
        table: Table,
        earlier: AbstractSet[ProcessIdentity] = frozenset(),
        caller: int | None = None,
    ) -> Relatives:
        """Return the relatives in this table. `earlier`: those of earlier tables, which may have
        new children."""
        caller = detach.calling_pid() if caller is None else caller
        # kept between looks: when the agent has ended, our shell has another parent
        self._our_ancestors |= {table[pid].identity for pid in ancestors(table, caller) if pid in table}
        search = _Search(self, table, caller)
        roots = [process for process in table.values() if process.identity in earlier]
        owner = table.get(self.owner.pid) if self.owner is not None else None
        if owner is not None and owner.identity == self.owner:
            roots.append(owner)
            # The shim adopts orphans. When the owner has ended, the hooks are below the shim as well.
            shim = self.find_shim(table)
            if shim is not None and shim.comm == SHIM:
                roots.append(shim)
        for root in roots:
            search.add_descendants(root)
        for process in self._find_marked(table):
            search.add_marked(process)
        relatives = search.relatives()
        return relatives if self._terminals is None else self._terminals.spare(relatives, table)

    def runs_us(self, process: Process) -> bool:
        """Return True for the shell that started agentctl, and its ancestors."""
        return process.identity in self._our_ancestors

    def is_hook(self, process: Process) -> bool:
        """Return True for an on-complete command of this launch: the user's, not a tool of the agent."""
        return _environ(process).get(HOOK, "").partition("/")[0] == self.launch_id

    def is_other_launch(self, process: Process) -> bool:
        """Return True for a session that was launched from inside this agent."""
        launch = _environ(process).get(LAUNCH)
        return launch is not None and launch not in self._own_launches

    def _find_marked(self, table: Table) -> Iterator[Process]:
        """Yield processes that inherited a mark of this session, also with another parent by now."""
        if self.launch_id is None and not self._markers and self._pid_marker is None:
            return
        for process in table.values():
            if not process.is_alive or (self.launch_id is None and self._is_older(process)):
                continue  # reading an environment is dear: most processes are older than the agent
            environ = _environ(process)
            if environ and self._is_confined(environ) and self._has_mark(process, environ):
                yield process

    def _has_mark(self, process: Process, environ: Mapping[str, str]) -> bool:
        """Compare launch ids first: they are unique, and the same in every container."""
        if self.launch_id is not None and environ.get(LAUNCH) == self.launch_id:
            return True
        if self._is_older(process):  # its agent may have had the same pid
            return False
        if any(environ.get(name) == value for name, value in self._markers):
            return True
        return self._pid_marker is not None and self._pid_marker.is_in(environ, process)

    def _is_older(self, process: Process) -> bool:
        """Return True if the process started before the owner, or there is no owner."""
        return self.owner is None or process.identity.start < self.owner.start

    def _is_confined(self, environ: Mapping[str, str]) -> bool:
        """Return True unless AGENTCTL_CONFINE (tests) limits us to marked processes."""
        name, _, value = self._confine.partition("=")
        return not self._confine or environ.get(name) == value


class _PidMarker(NamedTuple):
    """The owner's pid as its tools see it: in its own pid namespace."""

    names: frozenset[str]  # variables that hold it
    number: str
    namespace: str

    @classmethod
    def of(cls, owner: Process, names: Iterable[str]) -> _PidMarker | None:
        variables = frozenset(names)
        if not variables:
            return None
        try:
            if (namespace := owner.pid_namespace) is not None:
                return cls(variables, str(owner.read_inner_pid()), namespace)
        except SourceError:  # the owner has just ended
            pass
        # In our namespace only the owner had this pid. Its pid in another namespace is not known.
        return cls(variables, str(owner.pid), proc.pid_namespace())

    def is_in(self, environ: Mapping[str, str], process: Process) -> bool:
        if not any(environ.get(name) == self.number for name in self.names):
            return False
        try:
            return process.pid_namespace == self.namespace
        except SourceError:
            return False


class _Search:
    """One walk through one table."""

    def __init__(self, family: ProcessFamily, table: Table, caller: int) -> None:
        self._family = family
        self._table = table
        self._uid = os.geteuid()
        self._caller = caller
        self._above_owner = ancestors(table, family.owner.pid) if family.owner is not None else []
        self._children: dict[int, list[Process]] = {}
        for process in table.values():
            self._children.setdefault(process.parent, []).append(process)
        self._visited: set[int] = set()
        self._members: list[Process] = []
        self._not_ours: list[Process] = []
        self._spared: list[RemainingProcess] = []

    def add_descendants(self, root: Process) -> None:
        queue = [root]
        while queue:
            parent = queue.pop(0)
            queue += [
                child
                for child in self._children.get(parent.pid, ())
                # a child older than its parent: the pid got a new process while the table was read
                if child.identity.start >= parent.identity.start and self._visit(child)
            ]

    def add_marked(self, process: Process) -> None:
        """Add a process with an inherited mark. If it or an ancestor runs a session of its own, spare
        that one instead."""
        line = [self._table[pid] for pid in ancestors(self._table, process.pid)]
        separate = next((each for each in line if self._is_separate(each)), None)
        if process.pid in self._visited or (separate is not None and separate.pid in self._visited):
            return
        if separate is not None:
            self._spare(separate, "runs a session of its own")
        elif self._visit(process):
            self.add_descendants(process)

    def relatives(self) -> Relatives:
        return Relatives(tuple(self._members), tuple(self._not_ours), tuple(self._spared))

    def _is_separate(self, process: Process) -> bool:
        """Return True if the process runs another session. Ancestors of our owner do not count: all its
        tools are below them."""
        runs_other = process.identity in self._family.servers | self._family.terminals
        return runs_other and process.pid not in self._above_owner

    def _visit(self, process: Process) -> bool:
        """Sort a process. Return True if its children must be visited too."""
        if process.pid in self._visited or process.identity == self._family.owner:
            return False
        self._visited.add(process.pid)
        if not process.is_alive:
            return True  # a zombie has nothing to end, but may have had children when the table was read
        if is_control(process) or self._family.is_hook(process):
            return False
        if process.pid == self._caller:
            self._spare(process, "this very agentctl")
            return True
        if process.pid == os.getpid():  # the detached process of that agentctl
            return True
        if self._family.runs_us(process):
            self._spare(process, "agentctl runs in it")
            return True  # the other children of that shell are the agent's
        if self._family.is_other_launch(process):
            self._spare(process, "launched, a session of its own")
            return False
        if process.identity in self._family.servers:
            self._spare(process, "a server, with sessions of its own")
            return False
        if _uid(process) not in (self._uid, 0, None):  # 0: the kernel decides whether we may signal it
            self._not_ours.append(process)
        else:
            self._members.append(process)
        return True

    def _spare(self, process: Process, why: str) -> None:
        self._visited.add(process.pid)
        self._spared.append(
            RemainingProcess(process.pid, f"{process.comm}: {why}", command_line(process))
        )


def is_control(process: Process) -> bool:
    """Return True for a process of agentctl: a shim, the process that finishes its work, or the daemon.
    A shim adopts the daemon if a tool of the agent started it."""
    return process.comm in (SHIM, DAEMON) or (
        process.comm in INTERPRETERS and _program_name(process) != ""
    )


def runs_inside(owner: Process, table: Table) -> bool:
    """Return True if this process of ours is a descendant of the owner."""
    return owner.pid in ancestors(table, os.getpid())[1:]


def _program_name(process: Process) -> str:
    try:
        return ours.identify_program(process.argv)
    except SourceError:
        return ""


def _owners(observations: Iterable[Observation], entry_point: EntryPoint) -> frozenset[ProcessIdentity]:
    owners = (each.owner for each in observations if each.facts.entry_point == entry_point)
    return frozenset(owner.identity for owner in owners if owner is not None)


def _environ(process: Process) -> Mapping[str, str]:
    """Return an empty mapping if the kernel refuses, or the process has just ended."""
    try:
        return process.environ()
    except SourceError:
        return {}


def _uid(process: Process) -> int | None:
    try:
        return process.uid
    except SourceError:
        return None
