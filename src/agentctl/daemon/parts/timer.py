"""Fire fuses: wait for the next one that is due, and fire each in a thread of its own, so that one that
hangs holds up no other. Fuses that are overdue when the daemon starts fire then, once.

While the machine sleeps, the kernel does not count the time of our wait, but fuses do count it. So we
check the time at least once a minute: a fuse that came due in a sleep is at most that late.
"""

from __future__ import annotations

import logging
import threading
import time

from agentctl import paths
from agentctl.daemon.parts.worker import Worker
from agentctl.errors import AgentctlError
from agentctl.fuses import fire
from agentctl.light_typing import Any, Callable
from agentctl.state import fuses
from agentctl.state.fuses import SET, Fuse
from agentctl.system import sqlite
from agentctl.system.clock import format_rfc3339

log = logging.getLogger("agentctl.daemon.clock")  # the name in `daemon status`

SLOW = 60.0  # seconds: finds also a fuse whose process elsewhere died while it fired
AT_ONCE = 32  # threads: each is bounded by the limit of a command or a stop
REST = 5.0  # seconds before a fuse that failed to fire is tried again, for example on a full disk
DAY = 86400.0  # seconds between two removals of old fuses


class Timer(Worker[str]):
    """Its work is named by the id of the fuse."""

    name = "clock"

    def __init__(self, home: str) -> None:
        self._home = home
        self._database = paths.database_file(home)
        super().__init__(f"{self._database}-wal", self._database)
        self._has_free_thread = threading.Event()  # a fuse has fired: another may have its turn
        self._active: list[Fuse] = []
        self._problem: str | None = None

    def status(self) -> dict[str, Any]:
        now, active = fuses.read_clocks(), self._active
        remaining = [fuse.seconds_left(now) for fuse in active if fuse.state == SET]
        fields = {
            "burning": len(remaining),
            "firing": len(self._threads),
            "next_due_at": format_rfc3339(now.at + min(remaining)) if remaining else None,
        }
        if self._problem is None:
            return {**fields, **self._condition}
        return {**fields, "state": "failing", "problem": self._problem}

    def _run(self) -> None:
        last_stamp: object = None
        due = tidied_at = -DAY  # by the boot clock
        while not self._stopping.is_set():
            stamp, now = sqlite.read_stamp(self._database), fuses.read_clocks().elapsed
            if now - tidied_at >= DAY:
                tidied_at = now
                self._try(fire.remove_old_fuses, self._home)
            # our own look makes a log and removes it, which ends our wait: that is no change
            if self._has_free_thread.is_set() or now >= due or stamp is None or stamp != last_stamp:
                self._has_free_thread.clear()
                last_stamp, due = stamp, now + self._start_due()
            self._pause(max(0.0, due - fuses.read_clocks().elapsed))

    def _start_due(self) -> float:
        """Fire all that is due. Return the seconds until there is more to do, if nothing changes."""
        try:
            if not fuses.has_active(self._database):  # mostly: any write to the database wakes us
                self._active, self._problem = [], None
                return SLOW
            fuses.adjust_to_clock(self._database)
            for fuse in fuses.list_due(self._database):
                self._start_firing(fuse.id)
            self._active = fuses.list_active(self._database)
        except AgentctlError as error:
            self._report(str(error))
            return REST
        self._problem = None
        return self._seconds_to_next()

    def _seconds_to_next(self) -> float:
        clocks, now = fuses.read_clocks(), time.monotonic()
        remaining = {fuse.id: fuse.seconds_left(clocks) for fuse in self._active if fuse.state == SET}
        with self._mutex:
            self._rest_until = {name: end for name, end in self._rest_until.items() if end > now}
            handled = self._threads.keys() | self._rest_until.keys()
            is_full = len(self._threads) >= AT_ONCE
            # a fuse that is due and not handled came due while we looked: look again at once
            pauses = [
                seconds
                for name, seconds in remaining.items()
                if seconds > 0 or not (is_full or name in handled)
            ]
            pauses += [end - now for end in self._rest_until.values()]
        return max(0.0, min(*pauses, SLOW)) if pauses else SLOW

    def _start_firing(self, fuse_id: str) -> None:
        with self._mutex:
            rests = self._rest_until.get(fuse_id, 0.0) > time.monotonic()
            if rests or fuse_id in self._threads or len(self._threads) >= AT_ONCE:
                return  # its turn comes when a thread ends
            thread = threading.Thread(
                target=self._fire, args=(fuse_id,), name=f"fuse {fuse_id}", daemon=True
            )
            self._threads[fuse_id] = thread
        thread.start()

    def _fire(self, fuse_id: str) -> None:
        if not self._try(fire.fire_fuse, self._home, fuse_id):
            with self._mutex:
                self._rest_until[fuse_id] = time.monotonic() + REST
        with self._mutex:
            self._threads.pop(fuse_id, None)
        self._has_free_thread.set()
        self._waiter.wake()

    def _try(self, work: Callable[..., object], *arguments: str) -> bool:
        """Return False, and report why, if the work fails: one fuse does not end the timer."""
        try:
            work(*arguments)
        except AgentctlError as error:
            self._report(str(error))
            return False
        except Exception as error:  # the fence
            log.exception("%s%s", work.__name__, arguments)
            self._report(f"{type(error).__name__}: {error}")
            return False
        return True

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem
