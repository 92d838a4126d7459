"""Files of a process in another mount namespace, such as a container: the path that leads to them here.

`/proc/PID/root` leads into the process's own tree, with two traps. An absolute symbolic link below it
is followed from *our* root, so links are followed here, one by one. And a program that resolves the
path as text (SQLite does) ends up in our tree, at a file of the same name. So where our own namespace
shows the same directory (a bind mount, a volume, an image that is mounted here too), the path under
which we have it is used: it is proven by device and inode. Then a home that is shared with a container
has one name for everybody, too, and its sessions are not found twice.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentctl.errors import SourceError
from agentctl.system.mountinfo import Mount, is_below, mount_of, parse, read_own

if TYPE_CHECKING:
    from agentctl.system.proc import Process
    from agentctl.truth.look import Look

TABLE_CAP = 4 << 20  # bytes: thousands of mounts
MOST_LINKS = 40  # as many as the kernel follows


class Reached:
    """Directories of other mount namespaces that one look has come to, and their mounts."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}  # by device and inode: one directory, one name
        self._theirs: dict[int, list[Mount]] = {}  # by pid
        self._ours: list[Mount] = []

    def is_elsewhere(self, process: Process) -> bool:
        """Whether a process whose namespace is withheld is in another one. The kernel hides the
        namespace of another user's process, but not its mounts, and no two namespaces share one."""
        theirs = self._mounts_of(process)
        return bool(theirs) and not {m.id for m in theirs} & {m.id for m in self._here()}

    def path_here(self, process: Process, path: str, look: Look) -> str:
        """The path by which we reach `path` of that process."""
        root = f"/proc/{process.pid}/root"
        try:
            os.stat(f"{root}/")
        except PermissionError:
            why = "in another mount namespace, which we may not enter: its files are not read"
            look.problem("forbidden", why, process.identity.address)
            return f"{root}{path}"
        except OSError:  # it has ended
            return f"{root}{path}"
        inside = followed(root, path)
        status = _status(f"{root}{inside}")
        if status is not None and modes.S_ISDIR(status.st_mode):
            return self._directory(process, inside, status)
        # By its directory: what is beside a file (the log of a database) has to be beside it here, too.
        above, _, name = inside.rpartition("/")
        over = _status(f"{root}{above}/")
        if over is None:
            return f"{root}{inside}"
        return f"{self._directory(process, above or '/', over).rstrip('/')}/{name}"

    def _directory(self, process: Process, inside: str, status: os.stat_result) -> str:
        there = f"/proc/{process.pid}/root{inside}".rstrip("/")
        theirs = self._mounts_of(process)
        # what is mounted below it, or on a file in it, is another thing elsewhere
        if not theirs or any(is_below(mount.point, inside) for mount in theirs):
            return there
        inode = status.st_dev, status.st_ino
        if inode not in self._names:
            self._names[inode] = self._translated(inside, status, theirs) or there
        return self._names[inode]

    def _translated(self, inside: str, status: os.stat_result, theirs: list[Mount]) -> str | None:
        """Where our own namespace has the same directory; None: nowhere."""
        if (on := mount_of(inside, theirs)) is None:
            return None
        inner, ours = _joined(on.root, inside[len(on.point.rstrip("/")) :]), self._here()
        for here in (inside, *_names(inner, on.device, ours)):
            found = _status(here)
            if found is None or not os.path.samestat(status, found):
                continue
            if not any(is_below(mount.point, here) for mount in ours):
                return here
        return None

    def _mounts_of(self, process: Process) -> list[Mount]:
        if process.pid not in self._theirs:
            try:
                with process.entry() as handle:
                    self._theirs[process.pid] = parse(handle.read("mountinfo", TABLE_CAP))
            except SourceError:  # gone, or a kernel that withholds this, too
                self._theirs[process.pid] = []
        return self._theirs[process.pid]

    def _here(self) -> list[Mount]:
        if not self._ours:
            self._ours = read_own()
        return self._ours


def followed(root: str, path: str) -> str:
    """An absolute path below `root` without symbolic links, each followed as whoever has that root
    would. What does not exist, or may not be read, stays as it is."""
    done, left, links = "", _parts(path), 0
    while left:
        part = left.pop(0)
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{root}{done}/{part}")
        except OSError:  # the usual case: no link
            done = f"{done}/{part}"
            continue
        links += 1
        if links > MOST_LINKS:
            return path
        done = "" if target.startswith("/") else done
        left = [*_parts(target), *left]
    return done or "/"


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _names(inner: str, device: bytes, ours: list[Mount]) -> Iterator[str]:
    """Where we may see this path of that file system. The last mount hides those before it."""
    for mount in reversed(ours):
        if mount.device != device:
            continue
        if inner == mount.root or is_below(inner, mount.root):
            yield _joined(mount.point, inner[len(mount.root.rstrip("/")) :])


def _joined(directory: str, rest: str) -> str:
    return (directory.rstrip("/") + rest).rstrip("/") or "/"


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):  # absent, forbidden, or with a NUL in it
        return None
