"""Ends a child of ours that takes too long, with all that it has started."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGKILL

from agentctl.errors import Gone, SourceError
from agentctl.truth.look import Look
from agentctl.truth.model import ProcessIdentity
from agentctl.truth.pidfd import Handle
from agentctl.truth.procfs import Process

DEATH = 5.0  # seconds that KILL may take: the kernel has to let go of what the process held


def uproot(pid: int, belongs: Callable[[Process], bool] | None = None) -> None:
    """`pid`: a child that we have not reaped, so that the number is its own. `belongs` tells its
    descendants that have another parent by now. Again, until a look finds none."""
    spared: set[ProcessIdentity] = set()  # another user's by now (sudo), or stuck in the kernel
    while True:
        look = Look.take()
        child = look.table.get(pid)
        below = [child, *look.descendants(child)] if child is not None else []
        marked = [p for p in look.table.values() if belongs is not None and p.alive and belongs(p)]
        found = {p.identity for p in (*below, *marked) if p.alive} - spared
        if not found:
            return
        spared |= {identity for identity in found if not _killed(identity)}


def _killed(identity: ProcessIdentity) -> bool:
    try:
        with Handle(identity) as handle:
            handle.signal(SIGKILL)
            return handle.wait(DEATH)
    except Gone:
        return True
    except SourceError:
        return False
