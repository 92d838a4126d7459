"""A process's threads: how each is called, and when it began."""

from __future__ import annotations

import os
from typing import NamedTuple

from agentctl.errors import Gone
from agentctl.truth.procdir import parse_stat
from agentctl.truth.procfs import Process

STAT_CAP = 1024


class Thread(NamedTuple):
    comm: str
    start: int  # in ticks since boot, as a process's


def threads(process: Process) -> tuple[Thread, ...]:
    """Those it has now, the first one first. Raises Gone."""
    folder, found = f"/proc/{process.pid}/task", {}
    try:
        for name in os.listdir(folder):
            thread = _read(f"{folder}/{name}/stat")
            if thread is not None:
                found[int(name)] = thread
    except FileNotFoundError:
        found.clear()
    # The first thread began with the process: read through its number, but of no other than this one.
    first = found.get(process.pid)
    if first is None or first.start != process.identity.start:
        raise Gone(process.identity.address, "no such process")
    return tuple(found[number] for number in sorted(found))


def _read(path: str) -> Thread | None:
    """None: it ended since it was listed."""
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            stat = parse_stat(os.read(fd, STAT_CAP))
        finally:
            os.close(fd)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Thread(stat.comm, stat.start)
