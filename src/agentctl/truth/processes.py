"""The processes of one look, found by name, by parent and by the files that they have locked."""

from __future__ import annotations

import os

from agentctl.errors import Exhausted, SourceError
from agentctl.light_typing import TYPE_CHECKING, Collection, Iterator, Mapping
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.system.program import SHIM, may_be_named
from agentctl.truth.model import Evidence

if TYPE_CHECKING:
    from agentctl.truth.memory import Memory

KERNEL_THREADS = 2  # the pid of the parent of all kernel threads


class ProcessFinder:
    """All adapters of a look share one, so that each index is built once, when first needed."""

    def __init__(self, table: Mapping[int, Process], confine: str, memory: Memory | None) -> None:
        self._table = table
        self._confine = confine
        self._memory = memory
        self._by_name: dict[str, list[Process]] = {}  # by the process's name and its binary's
        self._children: dict[int, list[Process]] = {}  # by the parent's pid
        self._lock_holders: dict[int, set[int]] = {}  # pids, by the inode of the locked file
        self._shims: list[Process] | None = None

    def may_show(self, process: Process) -> bool:
        """Return whether the process is inside AGENTCTL_CONFINE."""
        if not self._confine:
            return True
        name, _, value = self._confine.partition("=")
        try:
            return process.environ().get(name) == value
        except SourceError:
            return False

    def find_named(self, names: frozenset[str]) -> list[Process]:
        """Return the live processes whose name, or whose binary's name, could be one of these."""
        index = self._by_name or self._index_names()
        matches = {
            process.pid: process
            for name, processes in index.items()
            if may_be_named(name, names)
            for process in processes
        }
        return [process for _, process in sorted(matches.items()) if process.is_alive]

    def _index_names(self) -> dict[str, list[Process]]:
        """Return the processes by name. A process that was started through a link has the link's name in
        the table, so the name of its binary counts too. Only a first filter: another process may have
        the pid by now."""
        cached = self._memory.binaries if self._memory is not None else {}
        binaries: dict[object, str] = {}
        for process in self._table.values():
            program = process.program
            self._by_name.setdefault(process.comm, []).append(process)
            if name := cached.get(program) or read_binary_name(process):
                binaries[program] = name
                if name != process.comm:
                    self._by_name.setdefault(name, []).append(process)
        if self._memory is not None:  # by program, which changes with each exec
            self._memory.binaries = binaries
        return self._by_name

    @property
    def has_shims(self) -> bool:
        """Whether a shim runs, the parent of an agent that we launched."""
        if self._shims is None:
            self._shims = [process for process in self._table.values() if process.comm == SHIM]
        return any(self.may_show(shim) for shim in self._shims)

    def find_lock_holders(
        self, path: str, status: os.stat_result, own: Collection[Process]
    ) -> list[Process]:
        """Return the live processes, except `own`, that have locked this file."""
        if not self._lock_holders:
            from agentctl.system.file_holders import find_lock_holders

            self._lock_holders.update(find_lock_holders() or {0: set()})
        if not (holders := self._lock_holders.get(status.st_ino)):
            return []
        others = (self._table.get(pid) for pid in holders.difference([p.pid for p in own]))
        alive = [p for p in others if p is not None and p.is_alive and self.may_show(p)]
        # Another file system may have a file with the same inode: check the descriptors.
        return [process for process in alive if _has_open(process, path, status)]

    def find_children(self, process: Process) -> list[Process]:
        if not self._children:
            children: dict[int, list[Process]] = {p.parent: [] for p in self._table.values()}
            for other in self._table.values():
                children[other.parent].append(other)
            self._children.update(children)  # in one step: adapters may run at the same time
        return self._children.get(process.pid, [])

    def find_descendants(self, process: Process) -> list[Process]:
        """Return the live descendants, nearest first, without those that were reparented to init."""
        descendants, queue = [], [process]
        while queue:
            nearest = [p for p in self.find_children(queue.pop(0)) if p.is_alive]
            descendants.extend(nearest)
            queue.extend(nearest)
        return descendants

    def find_end(self, pid: int, start: int, named_by: str) -> Iterator[Evidence]:
        """Yield evidence on the end of a process that a record names; nothing while it is alive."""
        address = f"proc:{pid}@{start}"
        if (process := self._table.get(pid)) is None:
            from agentctl.system.pidfd import is_taken  # rare, and `signal` costs 1 ms

            if is_taken(pid):  # hidden from us (hidepid), or started since the look
                note = f"{named_by} names it; a process of that number exists, and may not be looked at"
                yield Evidence("hidden", address, "kernel", note=note)
            else:
                note = f"{named_by} names it; it does not exist any more"
                yield Evidence("ended", address, "kernel", note=note)
        elif process.identity.start != start:
            note = f"{named_by} names it; its number belongs to another process now"
            yield Evidence("ended", address, "kernel", note=note)
        elif not process.is_alive:
            yield Evidence("ended", address, "kernel", note=f"{named_by} names it; it is a zombie")
            from agentctl.system.pidfd import read_zombie_exit_code

            code = read_zombie_exit_code(process)
            if code is not None:
                yield Evidence("exited", f"{address}/stat", "kernel", value=code)


def may_have_name(process: Process, names: frozenset[str]) -> bool:
    """Return whether the name of the process, or of its binary, could be one of these."""
    return may_be_named(process.comm, names) or may_be_named(read_binary_name(process), names)


def read_binary_name(process: Process) -> str:
    """Return the name of the binary that this pid runs now. Empty for a kernel thread, and where the
    kernel withholds the name."""
    if process.parent == KERNEL_THREADS:
        return ""
    return (proc.read_binary_path(process.pid) or "").rpartition("/")[2]


def _has_open(process: Process, path: str, status: os.stat_result) -> bool:
    try:
        return process.has_open(path.rpartition("/")[2], status)
    except Exhausted:
        raise
    except SourceError:  # the process has ended, or may not be looked into
        return False
