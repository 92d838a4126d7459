"""One consistent look at the machine, shared by all adapters: processes, files, clock, settings. They
read through a Look and nothing else, so a test can hand them a world of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError
from agentctl.paths import home_of
from agentctl.system import clock, files, proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.system.program import KEEPER, SHIM, is_runtime, may_be_named, plain_name
from agentctl.truth.bind import Tie, gone, suspected
from agentctl.truth.model import Evidence, Facts, Launch, Problem
from agentctl.truth.plain import pack, unpack

if TYPE_CHECKING:
    from agentctl.system.sqlite import Database
    from agentctl.truth.mounts import Reached
    from agentctl.truth.visibility import Sight
    from agentctl.truth.warm import Memory, Warm

Said = TypeVar("Said")
Environ = Mapping[str, str]
TAKEN_DOWN = 1.0  # seconds that we wait for a process which the kernel is taking down
KERNEL = 2  # the pid that the kernel's own threads have as their parent


class Look:
    """Taken once per question. `scoped()` gives each adapter its own view of it."""

    def __init__(
        self,
        table: Mapping[int, Process],
        environ: Environ,
        now: float,
        *,
        confine: str = "",
        memory: Memory | None = None,
        cwd: str = "",
        warm: Warm | None = None,
    ) -> None:
        self.table = table
        self.environ = environ
        self.now = now
        self.boot_time = clock.boot_time(now)
        self.confine = confine  # NAME=VALUE: see only processes with that in their environment
        self.memory = memory
        self.cwd = cwd  # of whoever asks, in whose environment a path may be relative; "": our own
        self.warm = warm  # None: we look once, and end
        self.notes: Mapping[ProcessIdentity, Launch] = {}  # by the process that we started
        self._mounts = os.readlink("/proc/self/ns/mnt")
        self._children: dict[int, list[Process]] = {}  # of all, once somebody asks for anyone's
        self._binaries: dict[int, str] = {}  # names of the binaries of all, once somebody asks
        self._shims: list[Process] | None = None  # of all agents that we launched, once somebody asks
        self._locks: dict[int, set[int]] = {}  # who has locked what, once somebody asks
        self._sight: list[Sight] = []  # one, once somebody asks
        self._begin("")

    def _begin(self, adapter: str) -> None:
        self.adapter = adapter
        self.comms: frozenset[str] = frozenset()  # names that its processes may have; empty: any
        self.owned: tuple[Process, ...] = ()  # live processes of the adapter
        self._owned_pids: tuple[tuple[Process, ...], set[int]] = ((), set())  # of that very tuple
        self.loose: tuple[Process, ...] = ()  # of these, those that no session is bound to
        self.aside: dict[int, str] = {}  # of these, those that run no session by design, and why
        self.owns: Callable[[Process], bool] | None = None  # the adapter's word on a process
        self._places: dict[str, None] = {}  # directories that the adapter has looked for sessions in
        self._writers: list[tuple[Process, str]] | None = None  # who writes there; None: not looked for
        self._outside: list[Process] | None = None  # None: not looked for yet
        self._all_seen: bool | None = None
        self.problems: list[Problem] = []
        self.unread = False  # a whole source could not be read, and may tell of any session
        self._reached: Reached | None = None  # in other mount namespaces
        self.complaints = 0  # how often there was one, counting those that are told already

    @classmethod
    def take(
        cls,
        environ: Environ | None = None,
        memory: Memory | None = None,
        *,
        cwd: str = "",
        warm: Warm | None = None,
    ) -> Look:
        given = os.environ if environ is None else environ
        confine = given.get("AGENTCTL_CONFINE", "")
        # before the processes: what is written later may be written by one that we do not see
        now = time.time()
        # At once, too: reading many processes takes long enough to date them back. The latest of three,
        # since a pause between two clocks makes it earlier and nothing makes it later.
        booted = max(clock.boot_time(time.time()) for _ in range(3))
        table: Mapping[int, Process] = proc.read_table() if warm is None else warm.read_table()
        if any(process.comm == KEEPER for process in table.values()):
            from agentctl.truth import rehearsals  # while `doctor --live` is at work

            table = rehearsals.without(table)
        look = cls(table, given, now, confine=confine, memory=memory, cwd=cwd, warm=warm)
        look.boot_time = booted
        return look

    def scoped(self, adapter: str) -> Look:
        view = Look.__new__(Look)
        view.__dict__.update(self.__dict__)
        view._begin(adapter)
        return view

    # processes

    def candidates(self, names: frozenset[str]) -> list[Process]:
        """Live processes whose name could be one of these, or whose binary's."""
        return [process for process in self._named(names) if self.admits(process)]

    def admits(self, process: Process) -> bool:
        """Whether `confine` lets it be shown."""
        return not self.confine or self._inside(process)

    def _named(self, names: frozenset[str]) -> list[Process]:
        binaries = self._binaries or self._read_binaries()
        known = {*binaries.values(), *(p.comm for p in self.table.values())}
        fitting = {name for name in known if may_be_named(name, names)}
        return [
            p
            for p in self.table.values()
            if (p.comm in fitting or binaries.get(p.pid) in fitting) and p.alive
        ]

    def _read_binaries(self) -> dict[int, str]:
        """The name of each process's binary, since a link of another name shows as that name in the
        table. Only to sieve by: the number may be another process's by now."""
        kept = self.warm.binaries if self.warm is not None else {}
        names = {p.pid: kept.get(p.program) or binary_name(p) for p in self.table.values()}
        if self.warm is not None:  # another program after each exec: it is read anew then
            self.warm.binaries = {self.table[pid].program: name for pid, name in names.items() if name}
        found = {pid: name for pid, name in names.items() if name}
        self._binaries.update(found)
        return found

    def lock_holders(self, path: str) -> list[Process]:
        """Live processes that have locked this file, whatever they are called; without those that the
        adapter owns already."""
        if not self._locks:
            from agentctl.system.file_holders import lock_holders

            self._locks.update(lock_holders() or {0: set()})
        status = self.status(path)
        if status is None or not (holders := self._locks.get(status.st_ino)):
            return []
        found = (self.table.get(pid) for pid in holders.difference(self._pids_of_owned()))
        alive = [p for p in found if p is not None and p.alive and self.admits(p)]
        # another file system has files of the same numbers: so its descriptors have the last word
        return [process for process in alive if _has_open(process, path, status)]

    def _pids_of_owned(self) -> set[int]:
        if self._owned_pids[0] is not self.owned:
            self._owned_pids = (self.owned, {process.pid for process in self.owned})
        return self._owned_pids[1]

    def started_at(self, process: Process) -> float:
        return process.began(self.boot_time)

    def children(self, process: Process) -> list[Process]:
        if not self._children:
            found: dict[int, list[Process]] = {p.parent: [] for p in self.table.values()}
            for other in self.table.values():
                found[other.parent].append(other)
            self._children.update(found)  # at once: adapters may ask at the same time
        return self._children.get(process.pid, [])

    def descendants(self, process: Process) -> list[Process]:
        """Live ones, nearest first. Those reparented to init are not among them."""
        found, queue = [], [process]
        while queue:
            nearest = [p for p in self.children(queue.pop(0)) if p.alive]
            found.extend(nearest)
            queue.extend(nearest)
        return found

    def noted(self) -> list[Tie]:
        """What our launch notes say of these processes, or of the wrapper that one was started by. (A
        Codex that a launched Claude has started is not what that note is about, nor is a Pi that a
        launched Pi has started.)"""
        ties, agents = [], {process.pid for process in self.owned}
        for process in self.owned:
            parent = self.table.get(process.parent) if process.parent not in agents else None
            started = (process, parent) if parent is not None else (process,)
            notes = (self.notes.get(each.identity) for each in started)
            note = next((n for n in notes if n is not None and n.adapter in (None, self.adapter)), None)
            if note is not None and note.session_id is not None:
                ties.append(Tie(note.session_id, process, "launch note", f"launch:{note.id}"))
            elif note is None and self.launching:
                from agentctl.truth.launched import carried_for  # our notes are lost: rare

                if (told := carried_for(started, self.table)) is not None and told.session_id:
                    ties.append(Tie(told.session_id, process, "launch note", told.address))
        return ties

    @property
    def launching(self) -> bool:
        """Whether there may be agents that we launched."""
        if self._shims is None:
            self._shims = [process for process in self.table.values() if process.comm == SHIM]
        return bool(self.notes) or any(self.admits(shim) for shim in self._shims)

    def set_aside(self, process: Process, why: str) -> None:
        """This process of ours runs no session, by design: no row for it."""
        self.aside[process.pid] = why

    def unowned(
        self,
        written_at: float | None,
        may: Callable[[Process], bool] | None = None,
        *,
        path: str,
        uid: int | None = None,
        began: float | None = None,
        turn_open: bool = False,
    ) -> Evidence:
        """Evidence on a session of this adapter, kept at `path`, that no live process is bound to.
        `may` tells which of the loose processes may run it, where the adapter knows; `uid` is whose
        file it is, which no other user but root goes on with; `began` is when the session did."""
        if written_at is not None and written_at > self.now and self._written_since(written_at):
            note = "written after we looked at the processes: its writer may have started since"
            return Evidence("hidden", "/proc", "kernel", at=self.now, note=note)
        if self._all_seen is None:
            self._all_seen = self.sight.clear and not self._outsiders()
        if self._all_seen and not self.loose and not turn_open:  # the usual case: nobody to suspect
            return gone(len(self.owned))
        return (
            suspected(self.loose, boot_time=self.boot_time, written_at=written_at, may=may, uid=uid)
            or self._out_of_sight(path, began, written_at)
            or (self._at_work(uid) if turn_open else None)
            or gone(len(self.owned))
        )

    def _out_of_sight(self, path: str, began: float | None, written_at: float | None) -> Evidence | None:
        """That nobody here runs it proves nothing where not everybody is visible."""
        obstacle = self.sight.obstacle(path, began, written_at)
        if obstacle:
            return Evidence("hidden", path, "derived", note=obstacle)
        for process in self._outsiders():
            if _may_use(process, path, alone=self.sight.alone):
                note = f"pid {process.pid} is outside of AGENTCTL_CONFINE, and may run it"
                return Evidence("hidden", process.identity.address, "derived", note=note)
        return None

    def _outsiders(self) -> list[Process]:
        """Processes of the adapter's own that `confine` leaves out."""
        if self._outside is None:
            others = self._named(self.comms) if self.confine and self.owns is not None else ()
            self._outside = [p for p in others if not self.admits(p) and self._may_be_ours(p)]
        return self._outside

    @property
    def sight(self) -> Sight:
        """What cannot be seen from here."""
        if not self._sight:
            from agentctl.truth import visibility

            self._sight.append(visibility.take(self.table, self.boot_time, self.environ))
        return self._sight[0]

    def _at_work(self, uid: int | None) -> Evidence | None:
        """Before an open turn counts as abandoned: a process under another name that has files of this
        agent open to write may be at it. To look for one costs something, so it is done once."""
        if self._writers is None:
            from agentctl.system.file_holders import writers_below

            known = {process.pid for process in self.owned}
            others = (p for p in self.table.values() if p.pid not in known)
            found = writers_below(others, self._places)
            self._writers = [(p, path) for p, path in found if not self._is_helper(p)]
        for process, held in self._writers:
            if uid is None or process.uid in (uid, 0):
                note = f"pid {process.pid} ({process.comm}) has {held} open to write, and may run it"
                return Evidence("hidden", process.identity.address, "derived", note=note)
        return None

    def _is_helper(self, process: Process) -> bool:
        """Whether it is the agent's own program, at work that is no session."""
        if is_runtime(plain_name(process.comm)) or not looks_like(process, self.comms):
            return False
        return not self._is_ours(process)

    def _may_be_ours(self, process: Process) -> bool:
        """A process that is being taken down shows neither program nor environment. We wait for its end.
        If that takes long, it may be ours, unless its name is a runtime's, which tells nothing."""
        try:
            if not proc.is_ending(process):
                return self._is_ours(process)
        except Gone:  # its directory is empty before the kernel is done with it
            pass
        if is_runtime(process.comm):
            return False
        from agentctl.system.pidfd import has_ended

        return not has_ended(process.identity, TAKEN_DOWN)

    def _is_ours(self, process: Process) -> bool:
        try:
            return self.owns is not None and self.owns(process)
        except SourceError:  # withheld: for all we know, it is
            return True

    def _written_since(self, stamp: float) -> bool:
        """Whether the file was written after the look. A stamp in the future does not show that: our
        clock was set back, or a file server stamped it. Then only a process that started after the look
        can have written it."""
        if stamp <= time.time() + 1:
            return True
        new = proc.newcomers(self.table)
        named = (p for p in new if not self.comms or looks_like(p, self.comms))
        return any(self.admits(process) for process in named)

    def fate(self, pid: int, start: int, named_by: str) -> Iterator[Evidence]:
        """What became of a process that a native record names, if it is not alive."""
        address = f"proc:{pid}@{start}"
        if (process := self.table.get(pid)) is None:
            from agentctl.system.pidfd import is_taken  # rare, and `signal` costs 1 ms

            if is_taken(pid):  # hidden from us (hidepid), or it has begun since
                note = f"{named_by} names it; a process of that number exists, and may not be looked at"
                yield Evidence("hidden", address, "kernel", note=note)
            else:
                note = f"{named_by} names it; it does not exist any more"
                yield Evidence("ended", address, "kernel", note=note)
        elif process.identity.start != start:
            note = f"{named_by} names it; its number belongs to another process now"
            yield Evidence("ended", address, "kernel", note=note)
        elif not process.alive:
            yield Evidence("ended", address, "kernel", note=f"{named_by} names it; it is a zombie")
            from agentctl.system.pidfd import zombie_exit_code

            code = zombie_exit_code(process)
            if code is not None:
                yield Evidence("exited", f"{address}/stat", "kernel", value=code)

    # files

    def names(self, directory: str) -> list[str]:
        """Entries of a directory; none when it does not exist, a Problem when it cannot be read."""
        try:
            return files.names(directory)
        except Gone:
            return []
        except SourceError as error:
            self.unreadable(error)
            return []

    def status(self, path: str) -> os.stat_result | None:
        """Its stat; None when it does not exist, a Problem when that cannot be told."""
        try:
            return files.status(path)
        except Gone:
            return None
        except SourceError as error:
            self.unreadable(error)
            return None

    def facts(self, path: str, status: os.stat_result, read: Callable[[str, Look], Facts]) -> Facts:
        """What the file says; remembered as long as the file is the same."""
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        said = self.memory.recall(path, stamp) if self.memory is not None else None
        if said is not None:
            try:
                return unpack(said)
            except (TypeError, ValueError):  # not what we remembered
                pass
        before = self.complaints
        facts = read(path, self)
        if facts.garbled:
            lines = f"{facts.garbled} record{'s' if facts.garbled != 1 else ''}"
            self.problem("malformed", f"{lines} not readable", path)
        if self.memory is not None and self.complaints == before:
            # what has a problem is read, and told, again
            self.memory.remember(path, stamp, status.st_mtime, pack(facts))
        return facts

    def read(self, path: str, read: Callable[[str, Look], Said]) -> Said:
        """What a live one's file says; whoever looks again and again remembers. Raises SourceError."""
        return read(path, self) if self.warm is None else self.warm.read(path, read, self)

    # settings

    def environ_of(self, process: Process) -> Environ:
        """The observed process's own environment; where withheld, what its user's would be."""
        try:
            known = process.environ()
            if known.get("HOME"):
                return known
            home = home_of(process.uid)  # its own user's, which need not be ours
        except (Forbidden, Exhausted) as error:
            self.unreadable(error)
            known, home = {}, home_of(process.uid)
        except Gone:
            return {}
        return {**known, "HOME": home} if home else known

    def database(self, path: str) -> Database:
        """A live session's database. A process that looks again and again remembers what it said.
        Raises SourceError, now or when it is asked."""
        from agentctl.system.sqlite import Database

        return Database(path, self.warm.answered(path) if self.warm is not None else None)

    def root_of(self, process: Process, place: Callable[[Environ], str | None]) -> str | None:
        """Where this very process keeps its files, as a path that we can open."""
        path = place(self.environ_of(process))
        return self.through(process, path) if path else None

    def roots(self, place: Callable[[Environ], str | None]) -> list[str]:
        """Where the agent's files are: by our environment, then by each live process's own."""
        ours = place(self.environ)
        places = [ours and os.path.join(self.cwd, ours), *(self.root_of(p, place) for p in self.owned)]
        found: dict[object, str] = {}  # a home may have several names: one directory is one root
        for path in places:
            if path:
                found.setdefault(files.inode(path) or path, path)
        self._places.update(dict.fromkeys(found.values()))
        return list(found.values())

    def through(self, process: Process, path: str) -> str:
        """A path that the process names, seen from here: a container's /root is not ours."""
        if not path.startswith("/") and process.cwd is not None:
            path = f"{process.cwd}/{path}"
        if process.mounts == self._mounts or not path.startswith("/"):
            return path
        if self._reached is None:
            from agentctl.truth.mounts import Reached  # for containers and other users' processes

            self._reached = Reached()
        if process.mounts is None and not self._reached.is_elsewhere(process):
            return path
        return self._reached.path_here(process, path, self)

    # what could not be read

    def problem(self, kind: str, message: str, source: str = "") -> None:
        self.complaints += 1
        if (found := Problem(self.adapter, kind, message, source)) not in self.problems:
            self.problems.append(found)

    def unreadable(self, error: SourceError) -> None:
        self.unread = True
        self.problem(error.kind, error.why, error.source)

    def drift(self, what: str, word: object, version: str | None, source: str) -> None:
        """The agent uses a word we do not know: say so, and let the next authority decide."""
        who = f"{self.adapter} {version}" if version else self.adapter
        self.problem("drift", f"{who} says {what} {word!r}, which this agentctl does not know", source)

    def _inside(self, process: Process) -> bool:
        name, _, value = self.confine.partition("=")
        try:
            return process.environ().get(name) == value
        except SourceError:
            return False


def looks_like(process: Process, names: frozenset[str]) -> bool:
    """Whether its name, or its binary's, could be one of these."""
    return may_be_named(process.comm, names) or may_be_named(binary_name(process), names)


def binary_name(process: Process) -> str:
    """Of whoever has its number now; empty where the kernel withholds it, and for its own threads."""
    if process.parent == KERNEL:
        return ""
    try:
        return os.readlink(f"/proc/{process.pid}/exe").rpartition("/")[2]
    except OSError:
        return ""


def _has_open(process: Process, path: str, status: os.stat_result) -> bool:
    try:
        return process.has_open(path.rpartition("/")[2], status)
    except Exhausted:
        raise
    except SourceError:  # it has ended, or may not be looked into
        return False


def _may_use(process: Process, path: str, *, alone: bool) -> bool:
    """Whether its settings lead to this file: some variable names a directory above it. Where they are
    withheld, the same user's and root's may; another user has a home of their own. A process that is
    being taken down has none left, so it may."""
    try:
        environ = process.environ()
    except Gone:
        return True
    except SourceError:
        return not alone and process.uid in (os.geteuid(), 0)
    if not environ:
        return True
    values = [*environ.values(), *(() if "HOME" in environ else (home_of(process.uid) or "/",))]
    return any(v.startswith("/") and f"{path}/".startswith(v.rstrip("/") + "/") for v in values)
