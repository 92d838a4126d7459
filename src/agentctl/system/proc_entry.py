"""One /proc/PID, opened and proven to be the process that was meant; and the line it says first, stat.

The seam where the kernel's errors about processes become ours.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from agentctl.errors import Exhausted, Forbidden, Gone, Malformed, SourceError
from agentctl.system.files import NO_DESCRIPTOR
from agentctl.system.identity import ProcessIdentity

STAT_CAP = 1024
PAGE = 1024  # bytes: no more than the least that procfs hands out where there is more
CHUNK = 1 << 14
EXITING = 0x4  # PF_EXITING, of the flags in stat


class Entry:
    """An open /proc/PID, proven to be the process that was meant."""

    __slots__ = ("_fd", "identity")

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self._fd = -1

    def shown(self) -> tuple[int, float]:
        """Whose process it is, and when somebody first looked at it."""
        status = os.fstat(self._fd)
        return status.st_uid, status.st_ctime

    def __enter__(self) -> Entry:
        source = self.identity.address
        try:
            self._fd = os.open(f"/proc/{self.identity.pid}", os.O_RDONLY | os.O_DIRECTORY)
            start = parse_stat(self.read("stat", STAT_CAP)).start
        except OSError as error:
            self.__exit__()
            raise translated(error, source) from error
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
                # procfs hands out a page or so at a time, and less than one at the end only
                chunks = [os.read(fd, min(cap, CHUNK))]
                while len(chunks[-1]) >= PAGE and sum(map(len, chunks)) < cap:
                    chunks.append(os.read(fd, CHUNK))
                return b"".join(chunks)
            finally:
                os.close(fd)
        except OSError as error:
            raise translated(error, f"{self.identity.address}/{name}") from error

    def link(self, name: str) -> str | None:
        """Target of a link; None when the kernel refuses (another user's) or has none."""
        try:
            return os.readlink(name, dir_fd=self._fd)
        except PermissionError:
            return None
        except FileNotFoundError:  # a kernel thread has no exe; a vanishing process neither
            return None
        except OSError as error:
            raise translated(error, f"{self.identity.address}/{name}") from error

    def status(self, name: str) -> os.stat_result:
        """Of what a link leads to, wherever that is: also in another mount namespace."""
        try:
            return os.stat(name, dir_fd=self._fd)
        except OSError as error:
            raise translated(error, f"{self.identity.address}/{name}") from error

    def links(self, name: str) -> list[tuple[str, str]]:
        """Entries of a directory of links, each with its target."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._fd)
            try:
                entries = os.listdir(fd)
                try:
                    return [(entry, os.readlink(entry, dir_fd=fd)) for entry in entries]
                except FileNotFoundError:  # one was closed since they were listed
                    return list(_targets(entries, fd))
            finally:
                os.close(fd)
        except OSError as error:
            raise translated(error, f"{self.identity.address}/{name}") from error

    def of_threads(self, name: str, besides: str = "") -> Iterator[bytes]:
        """That file of each thread, of the one `besides` excepted."""
        try:
            fd = os.open("task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._fd)
            try:
                threads = os.listdir(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise translated(error, f"{self.identity.address}/task") from error
        for thread in threads:
            if thread == besides:
                continue
            try:
                yield self.read(f"task/{thread}/{name}", STAT_CAP)
            except Gone:  # ended since it was listed
                continue


def _targets(entries: list[str], fd: int) -> Iterator[tuple[str, str]]:
    for entry in entries:
        try:
            yield entry, os.readlink(entry, dir_fd=fd)
        except FileNotFoundError:
            continue


class Stat:
    """The few fields of /proc/PID/stat that matter."""

    __slots__ = (
        "comm", "ending", "exit_status", "image", "layout", "parent", "start", "state", "threads"
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
        self.ending = ending
        self.image = image


def read_stat(pid: int) -> bytes:
    """The line of whoever has this number now. Raises SourceError."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            return os.read(fd, STAT_CAP)
        finally:
            os.close(fd)
    except OSError as error:
        raise translated(error, f"proc:{pid}") from error


def read_system_file(path: str) -> bytes:
    """One of the kernel's tables that is no process's, such as /proc/locks: it hands out a page at a
    time. Raises SourceError."""
    try:
        with open(path, "rb", buffering=0) as table:
            return table.readall()
    except OSError as error:
        raise translated(error, path) from error


def parse_stat(raw: bytes) -> Stat:
    # comm may hold blanks and parentheses: it ends at the *last* closing one.
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


def translated(error: OSError, source: str) -> SourceError:
    if isinstance(error, FileNotFoundError | ProcessLookupError | NotADirectoryError):
        return Gone(source, "no such process")
    if isinstance(error, PermissionError):
        return Forbidden(source, "the kernel refuses to tell (another user's process?)")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Exhausted(source, NO_DESCRIPTOR)
    return Malformed(source, error.strerror or str(error))
