"""Find the path by which we reach a file of a process in another mount namespace, such as a container.

`/proc/PID/root` leads into the process's own tree, with two traps. The kernel follows an absolute
symbolic link below it from *our* root, so this module follows links itself, one by one. And a program
that resolves the path as text, as SQLite does, ends up in our tree, at a file of the same name. So if
our own namespace has the same directory (a bind mount, a volume, an image that is mounted here too),
proven by device and inode, its path here is used. A home that is shared with a container then has one
name, and its sessions are not found twice.
"""

from __future__ import annotations

import os
import stat as modes

from agentctl.errors import SourceError
from agentctl.light_typing import TYPE_CHECKING, Iterator
from agentctl.paths import is_inside
from agentctl.system.mountinfo import Mount, find_mount, is_below, parse_mounts, read_own_mounts
from agentctl.system.proc import root_path

if TYPE_CHECKING:
    from agentctl.system.proc import Process
    from agentctl.truth.look import Look

TABLE_CAP = 4 << 20  # bytes: thousands of mounts
MOST_LINKS = 40  # as many as the kernel follows


class MountMap:
    """The directories of other mount namespaces that one look has met, and their mounts."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}  # by device and inode: one directory, one name
        self._theirs: dict[int, list[Mount]] = {}  # by pid
        self._ours: list[Mount] = []

    def is_elsewhere(self, process: Process) -> bool:
        """Return whether a process whose namespace is withheld is in another one. The kernel hides the
        namespace of another user's process, but not its mounts, and no two namespaces share a mount."""
        theirs = self._read_mounts(process)
        return bool(theirs) and not {m.id for m in theirs} & {m.id for m in self._read_own()}

    def find_path(self, process: Process, path: str, look: Look) -> str:
        """Return the path by which we reach `path` of that process."""
        root = root_path(process.pid)
        try:
            os.stat(f"{root}/")
        except PermissionError:
            why = "in another mount namespace, which we may not enter: its files are not read"
            look.report_problem("forbidden", why, process.identity.address)
            return f"{root}{path}"
        except OSError:  # the process has ended
            return f"{root}{path}"
        inside = follow_links(root, path)
        status = _read_status(f"{root}{inside}")
        if status is not None and modes.S_ISDIR(status.st_mode):
            return self._find_directory(process, inside, status)
        # By its directory: a file beside it (the log of a database) must be beside it here, too.
        parent, _, name = inside.rpartition("/")
        parent_status = _read_status(f"{root}{parent}/")
        if parent_status is None:
            return f"{root}{inside}"
        directory = self._find_directory(process, parent or "/", parent_status)
        return f"{directory.rstrip('/')}/{name}"

    def _find_directory(self, process: Process, inside: str, status: os.stat_result) -> str:
        there = f"{root_path(process.pid)}{inside}".rstrip("/")
        theirs = self._read_mounts(process)
        # A mount below the directory, or on a file in it, is not there in our namespace.
        if not theirs or any(is_below(mount.point, inside) for mount in theirs):
            return there
        inode = status.st_dev, status.st_ino
        if inode not in self._names:
            self._names[inode] = self._translate(inside, status, theirs) or there
        return self._names[inode]

    def _translate(self, inside: str, status: os.stat_result, theirs: list[Mount]) -> str | None:
        """Return where our own namespace has the same directory; None: nowhere."""
        if (mount := find_mount(inside, theirs)) is None:
            return None
        inner = _join(mount.root, inside[len(mount.point.rstrip("/")) :])
        ours = self._read_own()
        for path in (inside, *_list_paths(inner, mount.device, ours)):
            here = _read_status(path)
            if here is None or not os.path.samestat(status, here):
                continue
            if not any(is_below(own.point, path) for own in ours):
                return path
        return None

    def _read_mounts(self, process: Process) -> list[Mount]:
        if process.pid not in self._theirs:
            try:
                with process.entry() as handle:
                    self._theirs[process.pid] = parse_mounts(handle.read("mountinfo", TABLE_CAP))
            except SourceError:  # the process is gone, or the kernel withholds its mounts, too
                self._theirs[process.pid] = []
        return self._theirs[process.pid]

    def _read_own(self) -> list[Mount]:
        if not self._ours:
            self._ours = read_own_mounts()
        return self._ours


def follow_links(root: str, path: str) -> str:
    """Return an absolute path below `root` without symbolic links, each followed as a process with that
    root would. A part that does not exist or cannot be read stays as it is."""
    result, parts, links = "", _split(path), 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            result = result.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{root}{result}/{part}")
        except OSError:  # the usual case: no link
            result = f"{result}/{part}"
            continue
        links += 1
        if links > MOST_LINKS:
            return path
        result = "" if target.startswith("/") else result
        parts = [*_split(target), *parts]
    return result or "/"


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _list_paths(inner: str, device: bytes, ours: list[Mount]) -> Iterator[str]:
    """Yield our possible paths to `inner` of that file system. The last mount hides earlier ones."""
    for mount in reversed(ours):
        if mount.device != device:
            continue
        if is_inside(inner, mount.root):
            yield _join(mount.point, inner[len(mount.root.rstrip("/")) :])


def _join(directory: str, rest: str) -> str:
    return (directory.rstrip("/") + rest).rstrip("/") or "/"


def _read_status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):  # absent, forbidden, or with a NUL in it
        return None
