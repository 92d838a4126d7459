"""Find processes that have started since the last poll.

Without privileges, the kernel reports no starts. `last_pid` is polled instead: mostly one read of 30
bytes. Only the processes behind new pids are read, and read again for a while: a process starts under
the name of its parent.
"""

from __future__ import annotations

import time

from agentctl.errors import SourceError
from agentctl.system import clock, proc
from agentctl.system.last_pid import NewPids
from agentctl.system.proc import Process

YOUNG = 5.0  # seconds within which a new process may become another program


class NewProcesses:
    def __init__(self) -> None:
        self._boot = proc.read_boot_id()
        self._pids = NewPids()
        now, recent = time.monotonic(), clock.read_boot_clock() - YOUNG
        # with the time until which a process is young; at first those that started just before us
        self._young: dict[int, tuple[Process, float]] = {
            process.pid: (process, now + YOUNG)
            for process in proc.read_table().values()
            if process.identity.start / proc.TICKS >= recent
        }
        self._first = [process for process, _ in self._young.values()]  # for the first read
        # Pids without a process. Most have ended; but the kernel assigns a pid a moment before the
        # process appears, and on a busy machine that moment is long.
        self._absent: set[int] = set()

    def close(self) -> None:
        self._pids.close()

    def read(self) -> list[Process]:
        """Return processes that started, or became another program soon after. A thread may be among
        them: that costs a look, and nothing else."""
        pids = self._pids.take()
        if not pids and not self._young and not self._absent:
            return []  # nearly always: the rest costs more
        now = time.monotonic()
        processes, self._first = self._first, []
        processes += [p for pid in [*self._young] if (p := self._read_changed(pid, now)) is not None]
        retried, self._absent = self._absent, set()
        for pid in retried.union(pids) - self._young.keys():
            process = self._read(pid)
            if process is not None:
                self._young[pid] = (process, now + YOUNG)
                processes.append(process)
            elif pid not in retried:
                self._absent.add(pid)
        return processes

    def _read_changed(self, pid: int, now: float) -> Process | None:
        """Return a young process if it has become another program."""
        before, until = self._young[pid]
        process = self._read(pid)
        if process is None or process.identity != before.identity or now > until:
            del self._young[pid]
        else:
            self._young[pid] = (process, until)
        return process if process is not None and process.comm != before.comm else None

    def _read(self, pid: int) -> Process | None:
        try:
            return proc.read_process(pid, self._boot)
        except SourceError:  # ended already, as most are
            return None
