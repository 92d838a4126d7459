"""What a long-lived process may remember between two looks: the content of files, and the unchanging
facts of a process. Never the status of a session, and never whether a process is alive.

A file is the same while its inode, its size and both its times are. A file that was touched within the
grain of its time stamps may change once more and keep them: it is read again until it is older.

Of a process three things are kept. Its directory in /proc stays open: the kernel ties the handle to the
process, not to the pid, so a read fails once the process is gone. And two facts of the past: its
environment, which the kernel shows as it was at exec, and when a thread began. These belong to the same
process (boot, pid, start) and the same image in memory, whose place is random at each exec. If it is not
random, they are not kept. Everything else (state,
directory, arguments, name of the binary, open files) may change without a trace and is read at each
look.
"""

from __future__ import annotations

import _thread
import os

from agentctl.errors import Forbidden, Gone
from agentctl.light_typing import TYPE_CHECKING, Any, Callable, Mapping, Protocol, TypeVar
from agentctl.system import clock, files, proc, sqlite
from agentctl.system.proc import TICKS, Process, ProcessIdentity
from agentctl.system.procfs import (
    CHUNK,
    PAGE,
    STAT_CAP,
    Entry,
    Stat,
    parse_stat,
    read_stat,
    translate_error,
)
from agentctl.system.sqlite import KnownRows

if TYPE_CHECKING:
    from agentctl.truth.look import Look

Content = TypeVar("Content")
MOST_FILES = 4096  # more than a machine has live sessions
KEPT_OPEN = ("cmdline", "stat")  # files of a process that every look reads
MOST_DESCRIPTORS = 1024  # three for each process
MOST_DATABASES, MOST_QUERIES = 32, 64
# Bytes. The stack of a program that is not placed at random ends right below the top of memory; a random
# one comes that near with a chance of one in a million.
NEAR_THE_TOP = 1 << 24

Mark = tuple[int, int, int, int, int]
Reader = Callable[..., Any]
Stamp = tuple[object, ...]


class FactCache(Protocol):
    """Keeps packed facts by the path of their file and a stamp that changes with the content of the
    file. Never the status of a session."""

    def recall(self, path: str, stamp: Stamp) -> Any: ...
    def remember(self, path: str, stamp: Stamp, changed_at: float, packed: Any) -> None: ...


class Memory:
    """For one look at a time; an adapter that is late may still read for an earlier one."""

    def __init__(self, most_files: int = MOST_FILES, most_descriptors: int | None = None) -> None:
        self._most_files = most_files
        self._contents: dict[tuple[Reader, str], tuple[Mark, Any]] = {}
        self._rows: dict[str, tuple[Stamp, KnownRows]] = {}  # by path of the database
        self._mutex = _thread.allocate_lock()
        self._processes: dict[int, _ProcessMemo] = {}  # by pid
        self.binaries: dict[object, str] = {}  # names of the binaries, by program
        # how many descriptors may still be opened
        self._free = _count_affordable() if most_descriptors is None else most_descriptors

    def __len__(self) -> int:
        return len(self._contents)

    # files

    def read_file(self, path: str, read: Callable[[str, Look], Content], look: Look) -> Content:
        """Return what this reader finds in the file, or found in the same file before. Raises
        SourceError."""
        # before the content: the next look then notices what is written meanwhile
        status = files.read_status(path)
        mark = _mark(status)
        cached = self._contents.get((read, path))
        if cached is not None and cached[0] == mark:
            recalled: Content = cached[1]
            return recalled
        before = look.problem_count
        content = read(path, look)
        is_settled = clock.is_settled(status.st_mtime) and clock.is_settled(status.st_ctime)
        # A file with a problem is read again, so that the next look reports the problem too.
        if is_settled and look.problem_count == before:
            self._remember((read, path), (mark, content))
        return content

    def _remember(self, key: tuple[Reader, str], content: tuple[Mark, Any]) -> None:
        with self._mutex:
            self._contents[key] = content
            if len(self._contents) > self._most_files:
                del self._contents[next(iter(self._contents))]

    def recall_answers(self, path: str) -> KnownRows | None:
        """Return the rows that this database has returned before, if it is the same; None: query it."""
        stamped = sqlite.read_stamp(path)
        if stamped is None or not clock.is_settled(stamped[1]):
            self._rows.pop(path, None)
            return None
        stamp = stamped[0]
        cached = self._rows.get(path)
        if cached is None or cached[0] != stamp or len(cached[1]) > MOST_QUERIES:
            cached = self._rows[path] = (stamp, {})
            if len(self._rows) > MOST_DATABASES:
                del self._rows[next(iter(self._rows))]
        return cached[1]

    # processes

    def read_table(self) -> dict[int, Process]:
        """Return every process visible from here, each read now."""
        boot, table = proc.read_boot_id(), {}
        current: dict[int, _ProcessMemo] = {}
        for pid in proc.list_pids():
            memo = self._processes.get(pid)
            try:
                raw = _read_stat_line(pid, memo)
            except (Gone, Forbidden):  # see proc.read_table
                continue
            if memo is None or memo.raw != raw:  # most are idle: the line is the same, byte by byte
                memo = _keep_same(memo, ProcessIdentity(boot, pid, (stat := parse_stat(raw)).start))
                memo.raw, memo.stat = raw, stat
            current[pid] = memo
            process = table[pid] = proc.make_process(_RememberedProcess, memo.identity, memo.stat)
            process.memo, process.memory = memo, self
        dropped = (memo for pid, memo in self._processes.items() if current.get(pid) is not memo)
        self._free += (len(KEPT_OPEN) + 1) * sum(memo.entry is not None for memo in dropped)
        self._processes = current
        return dict(table)

    def open_entry(self, memo: _ProcessMemo) -> Entry:
        """Return the process's directory, kept open if there are descriptors to spare. Raises Gone."""
        if memo.entry is None and self._free > 0:
            memo.entry = OpenEntry(memo.identity)
            self._free -= len(KEPT_OPEN) + 1
        return memo.entry or Entry(memo.identity)


class _ProcessMemo:
    """What is kept of one process."""

    __slots__ = ("entry", "facts", "identity", "image", "raw", "stat")

    stat: Stat

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self.raw = b""  # the line that `stat` was parsed from
        self.entry: OpenEntry | None = None
        self.image = b""  # the image in memory to which `facts` belong
        self.facts: dict[str, Any] = {}


def _read_stat_line(pid: int, memo: _ProcessMemo | None) -> bytes:
    """Return the stat line of the process that has this pid now. Raises Gone."""
    if memo is not None and memo.entry is not None:
        try:
            return memo.entry.read("stat", STAT_CAP)
        except Gone:  # another process may have the pid by now
            pass
    return read_stat(pid)


def _keep_same(memo: _ProcessMemo | None, identity: ProcessIdentity) -> _ProcessMemo:
    """Return what is kept of the pid if it is still the same process, else an empty memory."""
    return memo if memo is not None and memo.identity == identity else _ProcessMemo(identity)


class OpenEntry(Entry):
    """A process's directory that stays open, with the files in it that every look reads. The kernel
    makes their content at the moment of reading."""

    __slots__ = ("_open",)

    def __init__(self, identity: ProcessIdentity) -> None:
        """Raises Gone."""
        super().__init__(identity)
        self._open: dict[str, int] = {}
        super().__enter__()

    def __enter__(self) -> Entry:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __del__(self) -> None:
        super().__exit__()
        for fd in getattr(self, "_open", {}).values():
            os.close(fd)

    def read(self, name: str, cap: int) -> bytes:
        if name not in KEPT_OPEN:
            return super().read(name, cap)
        try:
            fd = self._open.get(name, -1)
            if fd < 0:
                fd = self._open[name] = os.open(name, os.O_RDONLY, dir_fd=self._fd)
            data = os.pread(fd, CHUNK, 0)
        except OSError as error:
            raise translate_error(error, f"{self.identity.address}/{name}") from error
        return data if len(data) < PAGE else super().read(name, cap)


class _RememberedProcess(Process):
    """A process as it is now, whose directory may be open already."""

    __slots__ = ("memo", "memory")

    memo: _ProcessMemo
    memory: Memory

    def entry(self) -> Entry:
        return self.memory.open_entry(self.memo)

    def environ(self) -> Mapping[str, str]:
        environ: Mapping[str, str] | None = self._recall("environ")
        return self._keep("environ", super().environ()) if environ is None else environ

    def find_thread_start(self, name: str) -> int | None:
        what = f"start of {name}"
        start: int | None = self._recall(what)
        if start is not None:
            return start
        start = super().find_thread_start(name)
        # just begun: an older one may have its name a moment later
        is_young = start is None or clock.read_boot_clock() - start / TICKS < clock.GRAIN
        return start if is_young else self._keep(what, start)

    def _recall(self, what: str) -> Any:
        """Return a fact about the image that the process has now; None: it is not known."""
        memo = self.memo
        return memo.facts.get(what) if memo.image and memo.image == self.image else None

    def _keep(self, what: str, fact: Content) -> Content:
        memo = self.memo
        if memo.image != self.image:
            memo.image, memo.facts = self.image, {}
        if is_random(self.image):
            memo.facts[what] = fact
        return fact


def _count_affordable() -> int:
    """Return a quarter of the descriptors that we may open."""
    from resource import RLIMIT_NOFILE, getrlimit

    return min(MOST_DESCRIPTORS, getrlimit(RLIMIT_NOFILE)[0] // 4)


def is_random(image: bytes) -> bool:
    """Return whether another exec would have another place in memory. `image` ends with the address of
    the end of the environment."""
    end = int(image.rpartition(b" ")[2] or 0)
    return end > 0 and (1 << end.bit_length()) - end > NEAR_THE_TOP


def _mark(status: os.stat_result) -> Mark:
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )  # fmt: skip
