"""One consistent look at the machine, shared by all adapters: processes, files, clock, settings.
Adapters read through a Look and nothing else, so a test can give them a machine of its own."""

from __future__ import annotations

import os
import time

from agentctl.errors import AgentctlError, Exhausted, Forbidden, Gone, SourceError
from agentctl.light_typing import TYPE_CHECKING, Callable, Iterator, Mapping, TypeVar
from agentctl.paths import home_of_user
from agentctl.system import clock, files, proc
from agentctl.system.proc import Process, ProcessIdentity
from agentctl.system.program import KEEPER
from agentctl.truth.model import Evidence, Facts, Launch, Problem, pack_facts, unpack_facts
from agentctl.truth.processes import ProcessFinder

if TYPE_CHECKING:
    from agentctl.system.sqlite import Database
    from agentctl.truth.bind import Tie
    from agentctl.truth.memory import FactCache, Memory
    from agentctl.truth.mounts import MountMap
    from agentctl.truth.suspects import SuspectSearch
    from agentctl.truth.visibility import Visibility

Content = TypeVar("Content")
Environ = Mapping[str, str]


class Look:
    """Taken once per question. `scope_to` gives each adapter its own view."""

    def __init__(
        self,
        table: Mapping[int, Process],
        environ: Environ,
        now: float,
        *,
        confine: str = "",
        cache: FactCache | None = None,
        cwd: str = "",
        memory: Memory | None = None,
    ) -> None:
        self.table = table
        self.environ = environ
        self.now = now
        self.boot_time = clock.boot_time(now)
        self.confine = confine  # NAME=VALUE: show only processes with this variable
        self.cache = cache
        self.cwd = cwd  # for relative paths in `environ`; "": this process's own
        self.memory = memory  # None: this process looks once
        self.notes: Mapping[ProcessIdentity, Launch] = {}  # by the process that we started
        self._processes = ProcessFinder(table, confine, memory)
        self._mount_namespace = proc.mount_namespace()
        self._visibility: list[Visibility] = []  # one, once it is needed; shared by all views
        self._begin("")

    def _begin(self, adapter: str) -> None:
        """Reset what belongs to one adapter."""
        self.adapter = adapter
        self.comms: frozenset[str] = frozenset()  # names that its processes may have; empty: any
        self.owns: Callable[[Process], bool] | None = None  # the adapter's own test
        self.own_processes: tuple[Process, ...] = ()  # live processes of the adapter
        self.unbound_processes: tuple[Process, ...] = ()  # own processes bound to no session
        self.exclusions: dict[int, str] = {}  # own processes that run no session by design, and why
        self.searched_roots: dict[str, None] = {}  # directories where the adapter looked for sessions
        self.problems: list[Problem] = []
        self.problem_count = 0  # repeated ones included
        self.has_unread_source = False  # a whole source, which may be about any session
        self._suspects: SuspectSearch | None = None
        self._mounts: MountMap | None = None  # paths in other mount namespaces

    @classmethod
    def take(
        cls,
        environ: Environ | None = None,
        cache: FactCache | None = None,
        *,
        cwd: str = "",
        memory: Memory | None = None,
    ) -> Look:
        """Return a look at this machine now. Raises SourceError."""
        environ = os.environ if environ is None else environ
        confine = environ.get("AGENTCTL_CONFINE", "")
        # Before the processes: the writer of a later change may not be in the table.
        now = time.time()
        # Before the processes, too: reading many takes so long that they would seem older. The latest of
        # three, since a pause between reading the two clocks only ever makes the boot time earlier.
        booted = max(clock.boot_time(time.time()) for _ in range(3))
        table: Mapping[int, Process] = proc.read_table() if memory is None else memory.read_table()
        if any(process.comm == KEEPER for process in table.values()):
            from agentctl.truth import rehearsals  # while `doctor --live` runs

            table = rehearsals.exclude_rehearsals(table)
        look = cls(table, environ, now, confine=confine, cache=cache, cwd=cwd, memory=memory)
        look.boot_time = booted
        return look

    def scope_to(self, adapter: str) -> Look:
        """Return a view for one adapter: its own processes and problems, the same machine."""
        view = Look.__new__(Look)
        view.__dict__.update(self.__dict__)
        view._begin(adapter)
        return view

    # processes

    def find_candidates(self, names: frozenset[str]) -> list[Process]:
        """Return the live processes whose name, or whose binary's name, could be one of these."""
        return [process for process in self._processes.find_named(names) if self.may_show(process)]

    def find_outside(self, names: frozenset[str]) -> list[Process]:
        """Return the processes that AGENTCTL_CONFINE keeps out of `find_candidates`."""
        if not self.confine:
            return []
        return [process for process in self._processes.find_named(names) if not self.may_show(process)]

    def may_show(self, process: Process) -> bool:
        """Return whether the process is inside AGENTCTL_CONFINE."""
        return self._processes.may_show(process)

    def find_lock_holders(self, path: str) -> list[Process]:
        """Return the live processes, except the adapter's own, that have locked this file."""
        status = self.stat(path)
        if status is None:
            return []
        return self._processes.find_lock_holders(path, status, self.own_processes)

    def find_start_time(self, process: Process) -> float:
        return process.find_start_time(self.boot_time)

    def find_children(self, process: Process) -> list[Process]:
        return self._processes.find_children(process)

    def find_descendants(self, process: Process) -> list[Process]:
        """Return the live descendants, nearest first, without those that were reparented to init."""
        return self._processes.find_descendants(process)

    @property
    def has_launches(self) -> bool:
        """Whether there may be agents that we launched."""
        return bool(self.notes) or self._processes.has_shims

    def find_launch_ties(self) -> list[Tie]:
        """Return what our launch notes say about the adapter's own processes."""
        if not self.has_launches:
            return []
        from agentctl.truth.launches import find_ties

        return find_ties(self)

    def exclude_process(self, process: Process, why: str) -> None:
        """Give this own process no row: it runs no session, by design."""
        self.exclusions[process.pid] = why

    def find_end(self, pid: int, start: int, named_by: str) -> Iterator[Evidence]:
        """Yield evidence on the end of a process that a record names; nothing while it is alive."""
        return self._processes.find_end(pid, start, named_by)

    def find_evidence_without_owner(
        self,
        written_at: float | None,
        may: Callable[[Process], bool] | None = None,
        *,
        path: str,
        uid: int | None = None,
        began: float | None = None,
        turn_open: bool = False,
    ) -> Evidence:
        """Return the evidence on a session, stored at `path`, that no live process is bound to.

        `may` says which of the unbound processes may run it, if the adapter knows. `uid` owns the file:
        of other users, only root continues the session. `began` is when the session began."""
        if self._suspects is None:
            from agentctl.truth.suspects import SuspectSearch

            self._suspects = SuspectSearch()
        return self._suspects.find_evidence(
            self, written_at, may, path=path, uid=uid, began=began, turn_open=turn_open
        )

    @property
    def visibility(self) -> Visibility:
        """What cannot be seen from here."""
        if not self._visibility:
            from agentctl.truth import visibility

            self._visibility.append(visibility.read_visibility(self.table, self.boot_time, self.environ))
        return self._visibility[0]

    # files

    def list_names(self, directory: str) -> list[str]:
        """Return the entries of a directory: none if it does not exist. An error is a Problem."""
        try:
            return files.list_names(directory)
        except Gone:
            return []
        except SourceError as error:
            self.report_unreadable(error)
            return []

    def stat(self, path: str) -> os.stat_result | None:
        """Return the stat of a file, or None if it does not exist. An error is a Problem, and None."""
        try:
            return files.read_status(path)
        except Gone:
            return None
        except SourceError as error:
            self.report_unreadable(error)
            return None

    def read_facts(self, path: str, status: os.stat_result, read: Callable[[str, Look], Facts]) -> Facts:
        """Return what an ended session's file says, from the cache while the file is the same. Raises
        SourceError."""
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        cached = self.cache.recall(path, stamp) if self.cache is not None else None
        if cached is not None:
            try:
                return unpack_facts(cached)
            except (TypeError, ValueError):  # not what pack_facts made
                pass
        before = self.problem_count
        facts = read(path, self)
        if facts.garbled:
            lines = f"{facts.garbled} record{'s' if facts.garbled != 1 else ''}"
            self.report_problem("malformed", f"{lines} not readable", path)
        if self.cache is not None and self.problem_count == before:
            # A file with a problem is read again, so that the next look reports the problem too.
            self.cache.remember(path, stamp, status.st_mtime, pack_facts(facts))
        return facts

    def read_file(self, path: str, read: Callable[[str, Look], Content]) -> Content:
        """Return what `read` finds in a live session's file, from memory while the file is the same.
        Raises SourceError."""
        return read(path, self) if self.memory is None else self.memory.read_file(path, read, self)

    def open_database(self, path: str) -> Database:
        """Return a live session's database, with the rows that memory has of it. Raises SourceError, now
        or on a query."""
        from agentctl.system.sqlite import Database

        return Database(path, self.memory.recall_answers(path) if self.memory is not None else None)

    # settings

    def read_environ(self, process: Process) -> Environ:
        """Return the environment of a process. If the kernel withholds it: the HOME of its user."""
        try:
            environ = process.environ()
            if environ.get("HOME"):
                return environ
            home = home_of_user(process.uid)
        except (Forbidden, Exhausted) as error:
            self.report_unreadable(error)
            environ, home = {}, home_of_user(process.uid)
        except Gone:
            return {}
        return {**environ, "HOME": home} if home else environ

    def find_root(self, process: Process, place: Callable[[Environ], str | None]) -> str | None:
        """Return where this process keeps its files, as a path that we can open."""
        path = place(self.read_environ(process))
        return self.resolve_path(process, path) if path else None

    def find_roots(self, place: Callable[[Environ], str | None]) -> list[str]:
        """Return where the agent's files are: by our environment, then by each own process's."""
        ours = place(self.environ)
        paths = [
            ours and os.path.join(self.cwd, ours),
            *(self.find_root(p, place) for p in self.own_processes),
        ]
        roots: dict[object, str] = {}  # a home may have several names: one directory is one root
        for path in dict.fromkeys(paths):  # most processes say the same
            if path:
                roots.setdefault(files.read_inode(path) or path, path)
        self.searched_roots.update(dict.fromkeys(roots.values()))
        return list(roots.values())

    def resolve_path(self, process: Process, path: str) -> str:
        """Return the path by which we reach a file that the process names: a container's /root is not
        ours."""
        if not path.startswith("/") and process.cwd is not None:
            path = f"{process.cwd}/{path}"
        if process.mount_namespace == self._mount_namespace or not path.startswith("/"):
            return path
        if self._mounts is None:
            from agentctl.truth.mounts import MountMap  # for containers and other users' processes

            self._mounts = MountMap()
        if process.mount_namespace is None and not self._mounts.is_elsewhere(process):
            return path
        return self._mounts.find_path(process, path, self)

    # problems

    def report_problem(self, kind: str, message: str, source: str = "") -> None:
        self.problem_count += 1
        if (problem := Problem(self.adapter, kind, message, source)) not in self.problems:
            self.problems.append(problem)

    def report_unreadable(self, error: SourceError) -> None:
        """Report a whole source that could not be read."""
        self.has_unread_source = True
        self.report_problem(error.kind, error.why, error.source)

    def report_broken(self, error: BaseException) -> None:
        """Report a fault of the adapter itself."""
        # Our own errors are sentences. For other code the type of the error says most.
        message = str(error) if isinstance(error, AgentctlError) else f"{type(error).__name__}: {error}"
        self.report_problem("broken", message, self.adapter)

    def report_drift(self, what: str, word: object, version: str | None, source: str) -> None:
        """Report a word of the agent that this adapter does not know."""
        who = f"{self.adapter} {version}" if version else self.adapter
        self.report_problem(
            "drift", f"{who} says {what} {word!r}, which this agentctl does not know", source
        )
