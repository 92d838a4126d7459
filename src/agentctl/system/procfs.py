"""The files below /proc: their format, and a handle on the directory of one process.

The kernel ties such a handle to the process, not to the pid: once the process is gone, reads fail, even
if another process has the pid already.

An OSError on /proc becomes a SourceError here.
"""

from __future__ import annotations

import errno
import os

from agentctl.errors import Exhausted, Forbidden, Gone, Malformed, SourceError
from agentctl.light_typing import TYPE_CHECKING, Iterator
from agentctl.system.files import NO_DESCRIPTOR

if TYPE_CHECKING:
    from agentctl.system.proc import ProcessIdentity

STAT_CAP = 1024
PAGE = 1024  # bytes: a shorter read from procfs is the end of the file
CHUNK = 1 << 14
EXITING = 0x4  # PF_EXITING, of the flags in stat


class Entry:
    """An open /proc/PID, verified to be the process with this identity."""

    __slots__ = ("_fd", "identity")

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self._fd = -1

    def read_owner(self) -> tuple[int, float]:
        """Return the uid of the process, and when its directory was first accessed."""
        status = os.fstat(self._fd)
        return status.st_uid, status.st_ctime

    def __enter__(self) -> Entry:
        source = self.identity.address
        try:
            self._fd = os.open(f"/proc/{self.identity.pid}", os.O_RDONLY | os.O_DIRECTORY)
            start = parse_start(self.read("stat", STAT_CAP))
        except OSError as error:
            self.__exit__()
            raise translate_error(error, source) from error
        except SourceError:
            self.__exit__()
            raise
        if start != self.identity.start:
            self.__exit__()
            raise Gone(source, "the pid now names another process")
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, name: str, cap: int) -> bytes:
        try:
            fd = os.open(name, os.O_RDONLY, dir_fd=self._fd)
            try:
                # procfs returns about a page at a time, and less only at the end
                chunks = [os.read(fd, min(cap, CHUNK))]
                while len(chunks[-1]) >= PAGE and sum(map(len, chunks)) < cap:
                    chunks.append(os.read(fd, CHUNK))
                return b"".join(chunks)
            finally:
                os.close(fd)
        except OSError as error:
            raise translate_error(error, f"{self.identity.address}/{name}") from error

    def link(self, name: str) -> str | None:
        """Return the target of a link; None if the kernel withholds it or there is none."""
        try:
            return os.readlink(name, dir_fd=self._fd)
        except PermissionError:
            return None
        except FileNotFoundError:  # a kernel thread has no exe, nor has a process that ends
            return None
        except OSError as error:
            raise translate_error(error, f"{self.identity.address}/{name}") from error

    def status(self, name: str) -> os.stat_result:
        """Return the stat of a link's target, also in another mount namespace. Raises SourceError."""
        try:
            return os.stat(name, dir_fd=self._fd)
        except OSError as error:
            raise translate_error(error, f"{self.identity.address}/{name}") from error

    def links(self, name: str) -> list[tuple[str, str]]:
        """Return the entries of a directory of links, each with its target. Raises SourceError."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._fd)
            try:
                entries = os.listdir(fd)
                try:
                    return [(entry, os.readlink(entry, dir_fd=fd)) for entry in entries]
                except FileNotFoundError:  # a descriptor was closed since the listing
                    return list(_read_links(entries, fd))
            finally:
                os.close(fd)
        except OSError as error:
            raise translate_error(error, f"{self.identity.address}/{name}") from error

    def read_of_threads(self, name: str, besides: str = "") -> Iterator[bytes]:
        """Yield this file of each thread, except of thread `besides`. Raises SourceError."""
        try:
            fd = os.open("task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._fd)
            try:
                threads = os.listdir(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise translate_error(error, f"{self.identity.address}/task") from error
        for thread in threads:
            if thread == besides:
                continue
            try:
                yield self.read(f"task/{thread}/{name}", STAT_CAP)
            except Gone:  # the thread has ended since the listing
                continue


def _read_links(entries: list[str], fd: int) -> Iterator[tuple[str, str]]:
    for entry in entries:
        try:
            yield entry, os.readlink(entry, dir_fd=fd)
        except FileNotFoundError:
            continue


class Stat:
    """The fields of /proc/PID/stat that we use."""

    __slots__ = (
        "comm",
        "exit_status",
        "image",
        "is_ending",
        "layout",
        "parent",
        "start",
        "state",
        "threads"
    )  # fmt: skip

    def __init__(
        self,
        comm: str,
        state: str,
        parent: int,
        start: int,
        exit_status: int,
        *,
        layout: int,
        threads: int,
        ending: bool,
        image: bytes,
    ) -> None:
        self.comm = comm
        self.state = state
        self.parent = parent
        self.start = start
        self.exit_status = exit_status
        self.layout = layout
        self.threads = threads
        self.is_ending = ending
        self.image = image


def read_stat(pid: int) -> bytes:
    """Return the stat line of the process that has this pid now. Raises SourceError."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return os.read(fd, STAT_CAP)
        finally:
            os.close(fd)
    except OSError as error:
        raise translate_error(error, f"proc:{pid}") from error


def read_system_file(path: str) -> bytes:
    """Return one of the kernel's tables that belong to no process, such as /proc/locks. Raises
    SourceError."""
    try:
        with open(path, "rb", buffering=0) as table:
            return table.readall()
    except OSError as error:
        raise translate_error(error, path) from error


def parse_stat(raw: bytes) -> Stat:
    # comm may hold blanks and parentheses: it ends at the *last* closing parenthesis.
    head, _, tail = raw.rpartition(b")")
    fields = tail.split()
    if len(fields) < 20:
        raise Malformed("/proc/PID/stat", "too few fields")
    comm = head.partition(b"(")[2].decode("utf-8", "replace")
    exit_status, layout = (int(fields[49]), int(fields[45])) if len(fields) > 49 else (0, 0)
    state, parent, start = fields[0].decode("ascii"), int(fields[1]), int(fields[19])
    threads, ending = int(fields[17]), bool(int(fields[6]) & EXITING)
    image = b" ".join((fields[23], *fields[45:49])) if len(fields) > 49 else b""
    return Stat(
        comm,
        state,
        parent,
        start,
        exit_status,
        layout=layout,
        threads=threads,
        ending=ending,
        image=image,
    )


def parse_start(raw: bytes) -> int:
    """Return the start tick alone, in a fifth of the time of `parse_stat`."""
    fields = raw.rpartition(b")")[2].split(None, 20)
    if len(fields) < 20:
        raise Malformed("/proc/PID/stat", "too few fields")
    return int(fields[19])


def translate_error(error: OSError, source: str) -> SourceError:
    if isinstance(error, FileNotFoundError | ProcessLookupError | NotADirectoryError):
        return Gone(source, "no such process")
    if isinstance(error, PermissionError):
        return Forbidden(source, "the kernel withholds it (another user's process?)")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(source, NO_DESCRIPTOR)
    return Malformed(source, error.strerror or str(error))
