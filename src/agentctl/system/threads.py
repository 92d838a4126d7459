"""A process's threads: how each is called, and when it began."""

from __future__ import annotations

from typing import NamedTuple

from agentctl.system.proc import Process
from agentctl.system.proc_entry import parse_stat


class Thread(NamedTuple):
    comm: str
    start: int  # in ticks since boot, as a process's


def threads(process: Process) -> tuple[Thread, ...]:
    """Those it has now, the first to begin first. Raises Gone."""
    first = Thread(process.comm, process.identity.start)  # what all are, the process is by its first
    with process.entry() as handle:
        found = [parse_stat(raw) for raw in handle.of_threads("stat", besides=str(process.pid))]
    others = (Thread(stat.comm, stat.start) for stat in sorted(found, key=lambda stat: stat.start))
    return (first, *others)
