"""The process table, and what the kernel says about one process.

Invariant: after the first read of the table, everything about a process is read through a directory
handle that was verified against its start tick (`procfs.Entry`).
"""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.errors import Exhausted, Forbidden, Gone, SourceError, Unreachable
from agentctl.light_typing import Iterator, Mapping, NamedTuple, TypeVar
from agentctl.system import files
from agentctl.system.procfs import (
    STAT_CAP,
    Entry,
    Stat,
    parse_stat,
    read_stat,
    read_system_file,
    translate_error,
)

# Z zombie, X/x dead: they keep a pid and run nothing. kill(pid, 0) calls them alive.
DEAD_STATES = frozenset("ZXx")
ENVIRON_CAP = 2 << 20  # the kernel's own limit on argv + environ is about this
TICKS = os.sysconf("SC_CLK_TCK")
STEP = 1.0  # seconds: a smaller difference does not mean that the clock was set
NEVER = float("inf")
PROC = "/proc"  # the address of the process table in evidence
# These decide which processes and files a process sees, and which of them it may read.
VIEW_NAMESPACES = ("mnt", "pid", "user", "time")
RIGHTS = (b"Uid:", b"Gid:", b"Groups:", b"CapEff:")
INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # a constant of the kernel


class ProcessIdentity(NamedTuple):
    """Names one process for ever: a pid alone is reused, a pid with its start tick and boot id is
    not."""

    boot: str
    pid: int
    start: int  # clock ticks after boot, field 22 of /proc/PID/stat

    @property
    def address(self) -> str:
        return f"proc:{self.pid}@{self.start}"


class Thread(NamedTuple):
    comm: str
    start: int  # in ticks after boot, as in ProcessIdentity


def read_boot_id() -> str:
    """Return the id of this boot. Raises Unreachable."""
    path = "/proc/sys/kernel/random/boot_id"
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            boot = file.read().strip()
    except OSError as error:
        why = error.strerror or str(error)
        raise Unreachable(f"{path}: {why}", "agentctl needs /proc: mount it, or ask outside") from error
    if not boot:
        raise Unreachable(f"{path}: empty", "a sandbox hides it: ask outside")
    return boot


Kind = TypeVar("Kind", bound="Process")


class Process:
    """One process as the kernel describes it; argv, exe and cwd are read at the first access."""

    __slots__ = (
        "_accessed_at",
        "_argv",
        "_cwd",
        "_described",
        "_environ",
        "_exe",
        "_files",
        "_first_open",
        "_namespace",
        "_uid",
        "comm",
        "exit_status",
        "identity",
        "image",
        "is_ending",
        "layout",
        "mount_namespace",
        "parent",
        "pid",
        "state",
        "threads",
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
        self.pid = identity.pid
        self.parent = parent
        self.state = state
        self.comm = comm
        self.exit_status = exit_status  # a wait status; valid only for a zombie
        # the address of its arguments: as in its parent until it execs, random after; 0: withheld
        self.layout = layout
        self.image = image  # the addresses of code, arguments and environment: new after each exec
        self.threads = threads
        # The kernel is taking it down: it runs nothing any more, and its exe and argv are gone already.
        # This takes tens of milliseconds if it has much memory. It counts as alive until it is a zombie.
        self.is_ending = ending
        # its mount namespace, `mnt:[4026531841]`; None: withheld, or not read yet
        self.mount_namespace: str | None = None
        self._described = False
        self._argv: tuple[str, ...] = ()
        self._exe: str | None = None
        self._cwd: str | None = None
        self._uid: int | None = None
        self._namespace: str | None = None
        self._environ: dict[str, str] | None = None
        self._files: dict[str, str] | None = None  # the target of each descriptor, by its number
        self._accessed_at = NEVER
        self._first_open: float | None = None

    def __repr__(self) -> str:
        return f"<{self.comm} {self.identity.address} {self.state}>"

    def entry(self) -> Entry:
        """Return the directory in /proc, as a context manager. Entering it raises Gone."""
        return Entry(self.identity)

    @property
    def program(self) -> object:
        """A key that changes with each exec and each change of the name."""
        return self.identity, self.comm, self.image

    @property
    def is_alive(self) -> bool:
        """Whether it may run. A zombie with more threads is one only by its first: the others may
        run."""
        return self.state not in DEAD_STATES or self.threads > 1

    @property
    def argv(self) -> tuple[str, ...]:
        if not self._described:
            self._describe()
        return self._argv

    @property
    def exe(self) -> str | None:
        """Path of the running binary; None: the kernel withholds it."""
        if not self._described:
            self._describe()
        return self._exe

    @property
    def cwd(self) -> str | None:
        """Working directory; None: the kernel withholds it."""
        if not self._described:
            self._describe()
        return self._cwd

    @property
    def uid(self) -> int:
        if not self._described:
            self._describe()
        assert self._uid is not None
        return self._uid

    @property
    def pid_namespace(self) -> str | None:
        """`pid:[4026531836]`; None: the kernel withholds it."""
        if self._namespace is None:
            with self.entry() as handle:
                self._namespace = handle.link("ns/pid")
        return self._namespace

    def read_inner_pid(self) -> int:
        """Return the pid in its own namespace, which is the one it writes into its files. Raises
        Gone."""
        with self.entry() as handle:
            for line in handle.read("status", 8192).splitlines():
                if line.startswith(b"NSpid:"):
                    return int(line.split()[-1])
        return self.pid

    def environ(self) -> Mapping[str, str]:
        """Return the environment as it was at exec. Raises Forbidden for another user's process."""
        if self._environ is None:
            with self.entry() as handle:
                text = os.fsdecode(handle.read("environ", ENVIRON_CAP))
            pairs = (item.partition("=") for item in text.split("\0"))
            self._environ = {key: value for key, equals, value in pairs if equals}
        return self._environ

    def list_open_files(self) -> tuple[str, ...]:
        """Return the paths and socket names behind all descriptors. Raises Forbidden for another
        user's."""
        return tuple(self._descriptors().values())

    def list_own_files(self) -> tuple[str, ...]:
        """Return the same without the standard streams, which its parent opened."""
        return tuple(path for number, path in self._descriptors().items() if int(number) > 2)

    def has_open(self, name: str, status: os.stat_result) -> bool:
        """Return whether the process has this file open, which has this name. Raises SourceError."""
        with self.entry() as handle:
            for number, target in self._descriptors().items():
                if target.removesuffix(" (deleted)").rpartition("/")[2] == name and os.path.samestat(
                    handle.status(f"fd/{number}"), status
                ):
                    return True
        return False

    def read_standard_input(self) -> str:
        """Return the target of descriptor 0; empty if it is closed. Raises SourceError."""
        return self._descriptors().get("0", "")

    def read_file_position(self, path: str) -> int:
        """Return the furthest position of its descriptors on this file. A descriptor that appends stays
        where its own last write ended, even if other processes wrote since. Raises Gone, also if the
        process does not have the file open."""
        positions = [
            int(line.split(None, 2)[1]) for line in self._read_fdinfo(path) if line.startswith(b"pos:")
        ]
        if not positions:
            raise Gone(f"{self.identity.address}/fd", f"it does not hold {path}")
        return max(positions)

    def has_open_to_write(self, path: str) -> bool:
        """Return whether the process has this file open to write. Raises SourceError."""
        flags = [line.partition(b"flags:")[2].split(None, 1)[:1] for line in self._read_fdinfo(path)]
        return any(int(octal, 8) & os.O_ACCMODE for words in flags for octal in words)

    def _read_fdinfo(self, path: str) -> Iterator[bytes]:
        """Yield what the kernel says about each of its descriptors on this file."""
        with self.entry() as handle:
            for number in [number for number, target in self._descriptors().items() if target == path]:
                try:
                    yield handle.read(f"fdinfo/{number}", STAT_CAP)
                except Gone:  # closed since
                    continue

    def read_wait_channels(self) -> frozenset[str]:
        """Return where in the kernel its threads wait, by the kernel's names: `anon_pipe_read` if one
        reads an empty pipe. "0": a thread runs, or the kernel does not say. Raises SourceError."""
        with self.entry() as handle:
            return frozenset(raw.decode("ascii", "replace") for raw in handle.read_of_threads("wchan"))

    def find_thread_start(self, name: str) -> int | None:
        """Return the start tick of the oldest thread of this name; None: there is none yet. Raises
        Gone."""
        return min((thread.start for thread in read_threads(self) if thread.comm == name), default=None)

    def find_start_time(self, boot_time: float) -> float:
        """Return the start by the time of day. The kernel counts the start from boot: if the clock was
        set forward since, as in a virtual machine that slept, the process seems too young. But the
        kernel stamped its directory in /proc at the first access by any process, which was after the
        start."""
        start = boot_time + self.identity.start / TICKS
        return self._first_access if self._first_access < start - STEP else start

    def find_earliest_start_time(self, boot_time: float) -> float:
        """Return the same or an earlier time: perhaps no process read its directory before the clock was
        set, but it had opened pipes. (The first three descriptors are its parent's; sockets have no
        time.)"""
        if self._first_open is None:
            self._first_open = min(self._read_pipe_times(), default=NEVER)
        return min(self.find_start_time(boot_time), self._first_open)

    @property
    def _first_access(self) -> float:
        try:
            if not self._described:
                self._describe()
        except Gone:
            return NEVER
        return self._accessed_at

    def _read_pipe_times(self) -> Iterator[float]:
        try:
            with self.entry() as handle:
                for number, target in self._descriptors().items():
                    if int(number) > 2 and target.startswith("pipe:"):
                        yield handle.status(f"fd/{number}").st_ctime
        except Exhausted:
            raise
        except SourceError:  # another user's process, or the pipe is closed
            return

    def _descriptors(self) -> dict[str, str]:
        if self._files is None:
            with self.entry() as handle:
                self._files = dict(handle.links("fd"))
        return self._files

    def _describe(self) -> None:
        with self.entry() as handle:
            self._uid, self._accessed_at = handle.read_owner()
            raw = handle.read("cmdline", ENVIRON_CAP)
            exe, self._cwd = handle.link("exe"), handle.link("cwd")
            self.mount_namespace = handle.link("ns/mnt")
        # Pi overwrites its argv with its name and pads with NULs: drop the padding.
        self._argv = tuple(os.fsdecode(raw.rstrip(b"\0")).split("\0")) if raw else ()
        # " (deleted)": the binary was deleted or replaced since the process started.
        self._exe = exe.removesuffix(" (deleted)") if exe is not None else None
        self._described = True


def read_process(pid: int, boot: str) -> Process:
    """Return the process with this pid now. Raises SourceError."""
    stat = parse_stat(read_stat(pid))
    return make_process(Process, ProcessIdentity(boot, pid, stat.start), stat)


def make_process(kind: type[Kind], identity: ProcessIdentity, stat: Stat) -> Kind:
    return kind(
        identity,
        stat.parent,
        stat.state,
        stat.comm,
        stat.exit_status,
        layout=stat.layout,
        threads=stat.threads,
        ending=stat.is_ending,
        image=stat.image,
    )


def read_table() -> dict[int, Process]:
    """Return every process visible from here, without those that end meanwhile. Raises Exhausted if a
    process cannot be read for want of a descriptor."""
    boot, table = read_boot_id(), {}
    for pid in list_pids():
        try:
            table[pid] = read_process(pid, boot)
        except (Gone, Forbidden):  # hidepid=1: another user's process shows only its pid
            continue
    return table


def find_new_processes(table: Mapping[int, Process]) -> Iterator[Process]:
    """Yield the live processes that started, or became another program, since the table was read."""
    for process in read_table().values():
        before = table.get(process.pid)
        if process.is_alive and (before is None or before.program != process.program):
            yield process


def list_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def find_process(identity: ProcessIdentity) -> Process | None:
    """Return the process with this identity, which may be a zombie; None if it is gone. Raises Forbidden
    and Exhausted."""
    if identity.boot != read_boot_id():
        return None
    try:
        process = read_process(identity.pid, identity.boot)
    except Gone:
        return None
    return process if process.identity == identity else None


def is_ending_now(process: Process) -> bool:
    """Return whether the kernel is taking the process down, so that its program is no longer known. If
    it began to end after the table was read, it has no executable any more. Raises Gone."""
    if process.is_ending or process.exe is not None:
        return process.is_ending
    now = find_process(process.identity)
    return now is not None and now.is_ending


def pid_namespace() -> str:
    """Return our own pid namespace; empty: it cannot be read."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except FileNotFoundError:  # a kernel without pid namespaces has the one
        return INITIAL_PID_NAMESPACE
    except OSError:
        return ""


def may_be_elsewhere(identity: ProcessIdentity, namespace: str | None) -> bool:
    """Return whether the process may live in another pid namespace, where we cannot look. `namespace` is
    its own; None: ours."""
    is_ours = namespace is None or (namespace != "" and namespace == pid_namespace())
    return not is_ours and identity.boot == read_boot_id()


def read_threads(process: Process) -> tuple[Thread, ...]:
    """Return the threads of a process, oldest first. Raises Gone."""
    first = Thread(process.comm, process.identity.start)  # the process shows the values of its first
    with process.entry() as handle:
        stats = [parse_stat(raw) for raw in handle.read_of_threads("stat", besides=str(process.pid))]
    others = (Thread(stat.comm, stat.start) for stat in sorted(stats, key=lambda stat: stat.start))
    return (first, *others)


def mount_namespace() -> str:
    """Return our own mount namespace. Raises OSError."""
    return os.readlink("/proc/self/ns/mnt")


def root_path(pid: int) -> str:
    """Return the path by which we reach the root directory of this process."""
    return f"/proc/{pid}/root"


def is_in_proc(path: str) -> bool:
    """Return True for a path below /proc. Through /proc/PID/root it leads into another file system,
    where symbolic links mean something else."""
    return paths.is_inside(path, PROC)


def read_binary_path(pid: int) -> str | None:
    """Return the binary of the process that has this pid now; None: the kernel withholds it."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def read_uid_map() -> bytes:
    """Return the users of our user namespace. Raises SourceError."""
    return read_system_file("/proc/self/uid_map")


def read_viewpoint(pid: int) -> tuple[object, ...]:
    """Return all that decides what of the machine this process sees. Raises SourceError."""
    try:
        links = [os.readlink(root_path(pid))]
        for name in VIEW_NAMESPACES:
            try:
                links.append(os.readlink(f"/proc/{pid}/ns/{name}"))
            except FileNotFoundError:  # an older kernel has no time namespaces
                continue
        with open(f"/proc/{pid}/status", "rb") as file:
            rights = [line for line in file if line.startswith(RIGHTS)]
    except OSError as error:
        raise translate_error(error, f"proc:{pid}") from error
    return (*links, *rights)


def read_queue_seconds(pid: int) -> float:
    """Return how long the first thread of this pid has ever waited for a processor; 0 if the kernel does
    not count it. It is a hint: the pid may be reused."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def read_memory_file(process: Process, name: str) -> tuple[str, bytes] | None:
    """Return address and content of the file in memory that this process has open under this name (see
    `this_process.make_memory_file`); None: it has none. Raises SourceError."""
    with process.entry() as entry:
        numbers = [number for number, to in entry.links("fd") if to.startswith(f"/memfd:{name} ")]
    if not numbers:
        return None
    data = files.read_file(f"/proc/{process.pid}/fd/{numbers[0]}").data
    return f"{process.identity.address}/fd/{numbers[0]}", data
