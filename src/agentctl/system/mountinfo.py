"""The mounts of a process, as /proc/PID/mountinfo shows them."""

from __future__ import annotations

import os

from agentctl import paths
from agentctl.light_typing import NamedTuple, Sequence
from agentctl.system.procfs import read_system_file

OWN = "/proc/self/mountinfo"


class Mount(NamedTuple):
    """One line of mountinfo."""

    id: bytes  # never the same in two namespaces
    device: bytes
    root: str  # the directory of the file system that is mounted; "/": all of it
    point: str  # where it is mounted
    kind: str = ""  # the type of the file system


def read_own_mounts() -> list[Mount]:
    """Return every mount of our namespace, oldest first. Raises SourceError."""
    return parse_mounts(read_system_file(OWN))


def parse_mounts(raw: bytes) -> list[Mount]:
    mounts = []
    for line in raw.splitlines():
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) > 4:
            kind = after.split(b" ")[0].decode("ascii", "replace")
            root, point = _decode_path(fields[3]), _decode_path(fields[4])
            mounts.append(Mount(fields[0], fields[2], root, point, kind))
    return mounts


def find_mount(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """Return the mount of a path without links. The last mount hides earlier ones."""
    nearest = None
    for mount in mounts:
        if paths.is_inside(path, mount.point) and (
            nearest is None or len(mount.point) >= len(nearest.point)
        ):
            nearest = mount
    return nearest


def is_below(path: str, directory: str) -> bool:
    return path != directory and paths.is_inside(path, directory)


def _decode_path(field: bytes) -> str:
    """Return the field as a path: the kernel writes blank, tab, newline and backslash in octal."""
    if b"\\" in field:
        for octal, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
            field = field.replace(octal, byte)
    return os.fsdecode(field)
