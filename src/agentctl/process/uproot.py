"""Ends a child of ours that takes too long, with all that it has started."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentctl.process.handles import kill_all
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process
from agentctl.truth.look import Look


def uproot(pid: int, belongs: Callable[[Process], bool] | None = None) -> None:
    """`pid`: a child that we have not reaped, so that the number is its own. `belongs` tells its
    descendants that have another parent by now."""

    def family(_: frozenset[ProcessIdentity]) -> Iterator[Process]:
        look = Look.take()
        child = look.table.get(pid)
        if child is not None:
            yield from (child, *look.descendants(child))
        if belongs is not None:
            yield from (process for process in look.table.values() if process.alive and belongs(process))

    kill_all(family)
