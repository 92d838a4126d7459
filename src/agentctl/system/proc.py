"""The process table, read from /proc.

Invariant: whatever is read of a process after the first glance is read through a directory handle
that was re-verified against its start tick. The kernel ties such a handle to the process, not to the
number: when the process is gone, reads through it fail, even if the pid already names another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TypeVar

from agentctl.errors import Exhausted, Forbidden, Gone, SourceError, Unreachable
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc_entry import STAT_CAP, Entry, Stat, parse_stat, read_stat

# Z zombie, X/x dead: they keep a pid and run nothing. kill(pid, 0) calls them alive.
DEAD_STATES = frozenset("ZXx")
ENVIRON_CAP = 2 << 20  # the kernel's own limit on argv + environ is about this
TICKS = os.sysconf("SC_CLK_TCK")
STEP = 1.0  # seconds: what differs by less is no clock that was set
NEVER = float("inf")
INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # a constant of the kernel


def boot_id() -> str:
    """Raises Unreachable. A pid identifies a process only together with the boot id."""
    path = "/proc/sys/kernel/random/boot_id"
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            told = file.read().strip()
    except OSError as error:
        why = error.strerror or str(error)
        raise Unreachable(f"{path}: {why}", "agentctl needs /proc: mount it, or ask outside") from error
    if not told:
        raise Unreachable(f"{path}: empty", "a sandbox hides it: ask outside")
    return told


Kind = TypeVar("Kind", bound="Process")


class Process:
    """One process as the kernel describes it; argv, exe and cwd are read when first asked for."""

    __slots__ = (
        "_argv", "_cwd", "_described", "_environ", "_exe", "_files", "_first_open", "_namespace",
        "_seen", "_uid",
        "comm", "ending", "exit_status", "identity", "image", "layout", "mounts", "parent", "replaced",
        "state", "threads", "withheld",
    )  # fmt: skip

    def __init__(
        self,
        identity: ProcessIdentity,
        parent: int,
        state: str,
        comm: str,
        exit_status: int = 0,
        *,
        layout: int = 0,
        threads: int = 1,
        ending: bool = False,
        image: bytes = b"",
    ) -> None:
        self.identity = identity
        self.parent = parent
        self.state = state
        self.comm = comm
        self.exit_status = exit_status  # as wait() would give it; means nothing unless a zombie's
        # where its arguments lie in memory: as in its parent until it execs, random after; 0: withheld
        self.layout = layout
        self.image = image  # where code, arguments and environment lie: elsewhere after each exec
        self.threads = threads
        # The kernel is taking it down: it runs nothing any more, and what it was (exe, argv) is gone
        # already. Tens of milliseconds, for one with much memory. Alive until it is a zombie.
        self.ending = ending
        self.withheld: tuple[str, ...] = ()  # what the kernel refused to tell us
        # its mount namespace, `mnt:[4026531841]`; None: withheld, or not looked at yet
        self.mounts: str | None = None
        self.replaced = False  # its executable was deleted or replaced since it started
        self._described = False
        self._argv: tuple[str, ...] = ()
        self._exe: str | None = None
        self._cwd: str | None = None
        self._uid: int | None = None
        self._namespace: str | None = None
        self._environ: dict[str, str] | None = None
        self._files: dict[str, str] | None = None  # what is behind each descriptor, by its number
        self._seen = NEVER
        self._first_open: float | None = None

    def __repr__(self) -> str:
        return f"<{self.comm} {self.identity.address} {self.state}>"

    def entry(self) -> Entry:
        """Its directory in /proc, to be entered. Raises Gone when it is."""
        return Entry(self.identity)

    @property
    def pid(self) -> int:
        return self.identity.pid

    @property
    def program(self) -> object:
        """Another one after each exec, and under each name."""
        return self.identity, self.comm, self.image

    @property
    def alive(self) -> bool:
        """A zombie with further threads is one only by its first: the others go on, or still end."""
        return self.state not in DEAD_STATES or self.threads > 1

    @property
    def argv(self) -> tuple[str, ...]:
        self._describe()
        return self._argv

    @property
    def exe(self) -> str | None:
        """Path of the running binary; None: the kernel withholds it."""
        self._describe()
        return self._exe

    @property
    def cwd(self) -> str | None:
        """Working directory; None: the kernel withholds it."""
        self._describe()
        return self._cwd

    @property
    def uid(self) -> int:
        self._describe()
        assert self._uid is not None
        return self._uid

    @property
    def namespace(self) -> str | None:
        """`pid:[4026531836]`; None: the kernel withholds it."""
        if self._namespace is None:
            with self.entry() as handle:
                self._namespace = handle.link("ns/pid")
        return self._namespace

    def inner_pid(self) -> int:
        """Its number in its own pid namespace, which is what it writes into its own files."""
        with self.entry() as handle:
            for line in handle.read("status", 8192).splitlines():
                if line.startswith(b"NSpid:"):
                    return int(line.split()[-1])
        return self.pid

    def environ(self) -> Mapping[str, str]:
        """Its environment as it was at exec. Raises Forbidden for another user's process."""
        if self._environ is None:
            with self.entry() as handle:
                raw = handle.read("environ", ENVIRON_CAP)
            pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
            self._environ = {os.fsdecode(key): os.fsdecode(value) for key, _, value in pairs}
        return self._environ

    def open_files(self) -> tuple[str, ...]:
        """Paths and socket names behind its descriptors. Raises Forbidden for another user's."""
        return tuple(self._descriptors().values())

    def opened_files(self) -> tuple[str, ...]:
        """The same without the standard streams, which were given to it."""
        return tuple(path for number, path in self._descriptors().items() if int(number) > 2)

    def has_open(self, name: str, status: os.stat_result) -> bool:
        """Whether a descriptor of its is on this very file, which has this name. Raises SourceError."""
        with self.entry() as handle:
            for number, target in self._descriptors().items():
                if target.removesuffix(" (deleted)").rpartition("/")[2] == name and os.path.samestat(
                    handle.status(f"fd/{number}"), status
                ):
                    return True
        return False

    def standard_input(self) -> str:
        """What is behind it: a terminal, a pipe, a file; empty if it is closed. Raises SourceError."""
        return self._descriptors().get("0", "")

    def position_in(self, path: str) -> int:
        """How far its descriptors on this file have come. One that appends stands where its own last
        write ended, whoever has written since. Raises Gone, also when it has none."""
        found = [int(told.split(None, 2)[1]) for told in self._about(path) if told.startswith(b"pos:")]
        if not found:
            raise Gone(f"{self.identity.address}/fd", f"it does not hold {path}")
        return max(found)

    def writes(self, path: str) -> bool:
        """Whether it has this file open to write, and not only to read."""
        flags = [told.partition(b"flags:")[2].split(None, 1)[:1] for told in self._about(path)]
        return any(int(octal, 8) & os.O_ACCMODE for found in flags for octal in found)

    def _about(self, path: str) -> Iterator[bytes]:
        """What the kernel says of each of its descriptors on this file."""
        with self.entry() as handle:
            for number in [number for number, target in self._descriptors().items() if target == path]:
                try:
                    yield handle.read(f"fdinfo/{number}", STAT_CAP)
                except Gone:  # closed since
                    continue

    def sleeps_in(self) -> frozenset[str]:
        """Where in the kernel its threads are, by the kernel's names: `anon_pipe_read` if one reads an
        empty pipe. "0": it runs, or the kernel does not say."""
        with self.entry() as handle:
            return frozenset(raw.decode("ascii", "replace") for raw in handle.of_threads("wchan"))

    def began(self, boot_time: float) -> float:
        """When, by the time of day. Its start is counted from boot: was the clock set forward since, as
        in a virtual machine that has slept, then it seems younger than it is. But the kernel has stamped
        its directory here when somebody first looked, which was not before it began."""
        began = boot_time + self.identity.start / TICKS
        return self._first_seen if self._first_seen < began - STEP else began

    def may_have_begun(self, boot_time: float) -> float:
        """The same, or earlier: perhaps nobody looked before the clock was set, but it had opened pipes.
        (Behind the first three descriptors are those that it was given. Sockets have no time.)"""
        if self._first_open is None:
            self._first_open = min(self._opened(), default=NEVER)
        return min(self.began(boot_time), self._first_open)

    @property
    def _first_seen(self) -> float:
        try:
            self._describe()
        except Gone:
            return NEVER
        return self._seen

    def _opened(self) -> Iterator[float]:
        try:
            with self.entry() as handle:
                for number, target in self._descriptors().items():
                    if int(number) > 2 and target.startswith("pipe:"):
                        yield handle.status(f"fd/{number}").st_ctime
        except Exhausted:
            raise
        except SourceError:  # another user's, or it has closed that
            return

    def _descriptors(self) -> dict[str, str]:
        if self._files is None:
            with self.entry() as handle:
                self._files = dict(handle.links("fd"))
        return self._files

    def _describe(self) -> None:
        if self._described:
            return
        with self.entry() as handle:
            self._uid, self._seen = handle.shown()
            raw = handle.read("cmdline", ENVIRON_CAP)
            exe, self._cwd = handle.link("exe"), handle.link("cwd")
            self.mounts = handle.link("ns/mnt")
        # Pi overwrites its argv with its name and pads with NULs: drop the padding.
        self._argv = tuple(os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()
        if exe is not None and exe.endswith(" (deleted)"):
            exe, self.replaced = exe.removesuffix(" (deleted)"), True
        self._exe = exe
        self.withheld = tuple(n for n, v in (("exe", exe), ("cwd", self._cwd)) if v is None)
        self._described = True


def read_process(pid: int, boot: str) -> Process:
    """One process by number, right now. Raises Gone."""
    stat = parse_stat(read_stat(pid))
    return described(Process, ProcessIdentity(boot, pid, stat.start), stat)


def described(kind: type[Kind], identity: ProcessIdentity, stat: Stat) -> Kind:
    return kind(
        identity,
        stat.parent,
        stat.state,
        stat.comm,
        stat.exit_status,
        layout=stat.layout,
        threads=stat.threads,
        ending=stat.ending,
        image=stat.image,
    )


def read_table() -> dict[int, Process]:
    """Every process visible from here. One that vanishes meanwhile is simply not in it. Raises
    Exhausted: one that was not read for want of a descriptor would be missing from it."""
    boot, table = boot_id(), {}
    for pid in pids():
        try:
            table[pid] = read_process(pid, boot)
        except (Gone, Forbidden):  # hidepid=1: another user's shows its number and nothing else
            continue
    return table


def newcomers(table: Mapping[int, Process]) -> Iterator[Process]:
    """Live ones that have begun since that table was read, or become another program, as a shell may."""
    for process in read_table().values():
        known = table.get(process.pid)
        if process.alive and (known is None or known.program != process.program):
            yield process


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def current(identity: ProcessIdentity) -> Process | None:
    """The process with this identity if it still has a pid (it may be a zombie), else None."""
    if identity.boot != boot_id():
        return None
    try:
        process = read_process(identity.pid, identity.boot)
    except Gone:
        return None
    return process if process.identity == identity else None


def is_ending(process: Process) -> bool:
    """Whether the kernel is taking it down: nobody can tell any more whose it was. It may have begun to
    end since the table was read; then it is without its executable. Raises Gone."""
    if process.ending or process.exe is not None:
        return process.ending
    now = current(process.identity)
    return now is not None and now.ending


def namespace() -> str:
    """Ours, of pids; empty: nobody can tell."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except FileNotFoundError:  # a kernel without pid namespaces has the one
        return INITIAL_PID_NAMESPACE
    except OSError:
        return ""


def elsewhere(identity: ProcessIdentity, its: str | None) -> bool:
    """Whether it may live where we cannot look, as in a container. `its` namespace None: ours."""
    same = its is None or (its != "" and its == namespace())
    return not same and identity.boot == boot_id()
