"""One consistent look at the machine, shared by all adapters: processes, files, clock, settings. They
read through a Look and nothing else, so a test can hand them a world of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from agentctl.errors import Forbidden, Gone, SourceError
from agentctl.truth import clock, files, procfs
from agentctl.truth.bind import Tie, gone, nobody
from agentctl.truth.model import Evidence, Facts, Launch, Problem, ProcessIdentity
from agentctl.truth.plain import pack, unpack
from agentctl.truth.procfs import Process

if TYPE_CHECKING:
    from agentctl.truth.memory import Memory, Warm

Said = TypeVar("Said")
Environ = Mapping[str, str]


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
        self._begin("")

    def _begin(self, adapter: str) -> None:
        self.adapter = adapter
        self.comms: frozenset[str] = frozenset()  # names that its processes may have; empty: any
        self.owned: tuple[Process, ...] = ()  # live processes of the adapter
        self.loose: tuple[Process, ...] = ()  # of these, those that no session is bound to
        self.aside: dict[int, str] = {}  # of these, those that run no session by design, and why
        self.problems: list[Problem] = []
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
        table = procfs.read_table() if warm is None else warm.read_table()
        look = cls(table, given, now, confine=confine, memory=memory, cwd=cwd, warm=warm)
        look.boot_time = booted
        return look

    def scoped(self, adapter: str) -> Look:
        view = Look.__new__(Look)
        view.__dict__.update(self.__dict__)
        view._begin(adapter)
        return view

    # processes

    def candidates(self, comms: frozenset[str]) -> list[Process]:
        """Live processes whose name could be one of these."""
        named = {c for c in {p.comm for p in self.table.values()} if may_be_named(c, comms)}
        found = [p for p in self.table.values() if p.comm in named and p.alive]
        return [p for p in found if self._inside(p)] if self.confine else found

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
        Codex that a launched Claude has started is not what that note is about.)"""
        ties = []
        for process in self.owned if self.notes else ():
            parent = self.table.get(process.parent)
            started = (process, parent) if parent is not None else (process,)
            notes = (self.notes.get(each.identity) for each in started)
            note = next((n for n in notes if n is not None and n.adapter in (None, self.adapter)), None)
            if note is not None and note.session_id is not None:
                ties.append(Tie(note.session_id, process, "launch note", f"launch:{note.id}"))
        return ties

    def set_aside(self, process: Process, why: str) -> None:
        """This process of ours runs no session, by design: no row for it."""
        self.aside[process.pid] = why

    def unowned(
        self,
        written_at: float | None,
        may: Callable[[Process], bool] | None = None,
        *,
        uid: int | None = None,
    ) -> Evidence:
        """Evidence on a session of this adapter that no live process is bound to. `may` tells which
        of the loose processes may run it, where the adapter knows; `uid` is whose file it is in, which
        no other user but root goes on with."""
        if written_at is not None and written_at > self.now and self._written_since(written_at):
            note = "written after we looked at the processes: its writer may have started since"
            return Evidence("hidden", "/proc", "kernel", at=self.now, note=note)
        if not self.loose:  # the usual case: nobody to suspect
            return gone(len(self.owned))
        return nobody(
            self.loose,
            len(self.owned),
            boot_time=self.boot_time,
            written_at=written_at,
            may=may,
            uid=uid,
        )

    def _written_since(self, stamp: float) -> bool:
        """Or else it was stamped by another clock: what is written now has no stamp of the future, so
        this one was set back since, or is not the file server's. Only a newcomer may have written it."""
        if stamp <= time.time() + 1:
            return True
        new = procfs.newcomers(self.table)
        named = (p for p in new if not self.comms or may_be_named(p.comm, self.comms))
        return any(not self.confine or self._inside(process) for process in named)

    def fate(self, pid: int, start: int, named_by: str) -> Iterator[Evidence]:
        """What became of a process that a native record names, if it is not alive."""
        if (process := self.table.get(pid)) is None or process.identity.start != start:
            note = f"{named_by} names it; it does not exist any more"
            yield Evidence("gone", f"proc:{pid}@{start}", "kernel", note=note)
        elif not process.alive:
            address = process.identity.address
            yield Evidence("gone", address, "kernel", note=f"{named_by} names it; it is a zombie")
            from agentctl.truth.pidfd import zombie_exit_code  # rare, and `signal` costs 1 ms

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
            home = _home_of(process.uid)  # its own user's, which need not be ours
        except Forbidden as error:
            self.unreadable(error)
            known, home = {}, _home_of(process.uid)
        except Gone:
            return {}
        return {**known, "HOME": home} if home else known

    def root_of(self, process: Process, place: Callable[[Environ], str | None]) -> str | None:
        """Where this very process keeps its files, as a path that we can open."""
        path = place(self.environ_of(process))
        return self.through(process, path) if path else None

    def roots(self, place: Callable[[Environ], str | None]) -> list[str]:
        """Where the agent's files are: by our environment, then by each live process's own."""
        ours = place(self.environ)
        places = [ours and os.path.join(self.cwd, ours), *(self.root_of(p, place) for p in self.owned)]
        return list(dict.fromkeys(p for p in places if p))

    def through(self, process: Process, path: str) -> str:
        """A path that the process names, seen from here: a container's /root is not ours."""
        if not path.startswith("/") and process.cwd is not None:
            path = f"{process.cwd}/{path}"
        if process.mounts in (None, self._mounts) or not path.startswith("/"):
            return path
        return f"/proc/{process.pid}/root{path}"

    # what could not be read

    def problem(self, kind: str, message: str, source: str = "") -> None:
        self.complaints += 1
        if (found := Problem(self.adapter, kind, message, source)) not in self.problems:
            self.problems.append(found)

    def unreadable(self, error: SourceError) -> None:
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


def home(environ: Environ) -> str | None:
    """HOME, else the passwd entry; None for a uid without either (containers)."""
    return environ.get("HOME") or _home_of(os.getuid())


def may_be_named(comm: str, comms: frozenset[str]) -> bool:
    # "#.#.#" stands for a binary named after its version (~/.local/share/claude/versions/2.1.325)
    return comm in comms or ("#.#.#" in comms and comm[:1].isdigit() and comm.count(".") >= 2)


def _home_of(uid: int) -> str | None:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None
