"""The mounts of a process, as /proc/PID/mountinfo shows them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from agentctl.system.proc_entry import read_system_file

OWN = "/proc/self/mountinfo"


class Mount(NamedTuple):
    """One line of mountinfo."""

    id: bytes  # never the same in two namespaces
    device: bytes
    root: str  # which directory of that file system; "/": all of it
    point: str  # where it is seen
    kind: str = ""  # of file system


def read_own() -> list[Mount]:
    """Every mount that we see, in the order in which they were made. Raises SourceError."""
    return parse(read_system_file(OWN))


def parse(raw: bytes) -> list[Mount]:
    found = []
    for line in raw.splitlines():
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) > 4:
            kind = after.split(b" ")[0].decode("ascii", "replace")
            found.append(Mount(fields[0], fields[2], _plain(fields[3]), _plain(fields[4]), kind))
    return found


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that a path without links is on. The last one hides those before it."""
    found = None
    for mount in mounts:
        if (path == mount.point or is_below(path, mount.point)) and (
            found is None or len(mount.point) >= len(found.point)
        ):
            found = mount
    return found


def is_below(path: str, directory: str) -> bool:
    return path != directory and path.startswith(directory.rstrip("/") + "/")


def _plain(field: bytes) -> str:
    """Blank, tab, newline and backslash are written as octal numbers."""
    if b"\\" in field:
        for octal, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
            field = field.replace(octal, byte)
    return os.fsdecode(field)
