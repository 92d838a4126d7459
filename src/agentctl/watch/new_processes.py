"""Processes that have begun since we last asked.

The kernel tells nobody without privileges of a birth, so this is asked by the clock (`last_pid`): mostly
one read of 30 bytes. Only the processes behind the new numbers are then looked at, and for a while once
more, since a process begins under its parent's name.
"""

from __future__ import annotations

import time

from agentctl.errors import SourceError
from agentctl.system import proc
from agentctl.system.last_pid import Numbers
from agentctl.system.proc import Process

YOUNG = 5.0  # seconds within which a new process may become another program


class Births:
    def __init__(self) -> None:
        self._boot = proc.boot_id()
        self._numbers = Numbers()
        # with the moment after which it is not; at first those that began just before we came
        now, recent = time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME) - YOUNG
        self._young: dict[int, tuple[Process, float]] = {
            process.pid: (process, now + YOUNG)
            for process in proc.read_table().values()
            if process.identity.start / proc.TICKS >= recent
        }
        self._first = [process for process, _ in self._young.values()]  # told of like any that is new
        # Numbers that were nobody's: most have ended already; but one is given out a moment before the
        # process is there, and that moment is long on a machine that has much to do.
        self._nobody: set[int] = set()

    def close(self) -> None:
        self._numbers.close()

    def new(self) -> list[Process]:
        """Those that began, or became another program soon after. A thread's number may be among them,
        which costs its adapter a look and no more."""
        numbers = self._numbers.new()
        if not numbers and not self._young and not self._nobody:
            return []  # nearly always, at every beat: all else would cost more
        now = time.monotonic()
        found, self._first = self._first, []
        found += [p for pid in [*self._young] if (p := self._changed(pid, now)) is not None]
        again, self._nobody = self._nobody, set()
        for pid in again.union(numbers) - self._young.keys():
            process = self._read(pid)
            if process is not None:
                self._young[pid] = (process, now + YOUNG)
                found.append(process)
            elif pid not in again:
                self._nobody.add(pid)
        return found

    def _changed(self, pid: int, now: float) -> Process | None:
        known, until = self._young[pid]
        process = self._read(pid)
        if process is None or process.identity != known.identity or now > until:
            del self._young[pid]
            return process if process is not None and process.comm != known.comm else None
        self._young[pid] = (process, until)
        return process if process.comm != known.comm else None

    def _read(self, pid: int) -> Process | None:
        try:
            return proc.read_process(pid, self._boot)
        except SourceError:  # it has ended, as most do
            return None
