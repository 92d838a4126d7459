"""Burns fuses down: waits for the next that is due, and has it fired in a thread of its own, so that one
that hangs holds no other. What is overdue when the daemon starts is fired then, once.

The kernel does not count the time that the machine sleeps while it waits for us. The fuses do; so at
least once a minute we look what time it is, which is how late one may be that came due in a sleep.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from agentctl import paths
from agentctl.daemon.parts.worker import Hands
from agentctl.errors import AgentctlError
from agentctl.fuses import fire
from agentctl.state import fuse as clocks
from agentctl.state import fuses
from agentctl.state.fuse import BURNING, Fuse
from agentctl.system import sqlite
from agentctl.system.clock import rfc3339

log = logging.getLogger("agentctl.daemon.clock")  # as `daemon status` names it

SLOW = 60.0  # seconds: also for who fired one elsewhere and died of it, which nobody tells us
AT_ONCE = 32  # threads: each is bounded, by what a command and a stop may take
REST = 5.0  # seconds for one that could not be fired, such as for a full disk
DAY = 86400.0  # seconds between two times of forgetting what was settled long ago


class Clock(Hands[str]):
    """What is at work is named by its fuse."""

    name = "clock"

    def __init__(self, home: str) -> None:
        self._home = home
        self._notes = paths.notes_file(home)
        super().__init__(f"{self._notes}-wal", self._notes)
        self._one_is_over = threading.Event()  # and another may have its turn
        self._lit: list[Fuse] = []
        self._problem: str | None = None

    def status(self) -> dict[str, Any]:
        moment, lit = clocks.now(), self._lit
        ahead = [each.left(moment) for each in lit if each.state == BURNING]
        told = {
            "burning": len(ahead),
            "firing": len(self._working),
            "next_due_at": rfc3339(moment.at + min(ahead)) if ahead else None,
        }
        if self._problem is None:
            return {**told, **self._condition}
        return {**told, "state": "failing", "problem": self._problem}

    def _run(self) -> None:
        seen: object = None
        due = tidied = -DAY  # by the boot clock
        while not self._stopping.is_set():
            stamp, now = sqlite.stamp(self._notes), clocks.now().elapsed
            if now - tidied >= DAY:
                tidied = now
                self._quietly(fire.tidy, self._home)
            # our own look makes a log and removes it, which wakes us: that is no change
            if self._one_is_over.is_set() or now >= due or stamp is None or stamp != seen:
                self._one_is_over.clear()
                seen, due = stamp, now + self._round()
            self._pause(max(0.0, due - clocks.now().elapsed))

    def _round(self) -> float:
        """Sets off all that is due. Seconds until there is more to do, if nothing happens."""
        try:
            if not fuses.any_lit(self._notes):  # whoever writes anything wakes us: mostly for nothing
                self._lit, self._problem = [], None
                return SLOW
            fuses.keep_time(self._notes)
            for each in fuses.due(self._notes):
                self._set_off(each.id)
            self._lit = fuses.lit(self._notes)
        except AgentctlError as error:
            self._tell(str(error))
            return REST
        self._problem = None
        moment, now = clocks.now(), time.monotonic()
        burning = {each.id: each.left(moment) for each in self._lit if each.state == BURNING}
        with self._mutex:
            self._resting = {name: end for name, end in self._resting.items() if end > now}
            seen_to = self._working.keys() | self._resting.keys()
            full = len(self._working) >= AT_ONCE
            # one that is over, and that nobody sees to, came due while we looked: at once again
            ahead = [left for name, left in burning.items() if left > 0 or not (full or name in seen_to)]
            ahead += [end - now for end in self._resting.values()]
        return max(0.0, min(*ahead, SLOW)) if ahead else SLOW

    def _set_off(self, fuse_id: str) -> None:
        with self._mutex:
            rests = self._resting.get(fuse_id, 0.0) > time.monotonic()
            if rests or fuse_id in self._working or len(self._working) >= AT_ONCE:
                return  # its turn comes when one of those has ended
            thread = threading.Thread(
                target=self._fire, args=(fuse_id,), name=f"fuse {fuse_id}", daemon=True
            )
            self._working[fuse_id] = thread
        thread.start()

    def _fire(self, fuse_id: str) -> None:
        if not self._quietly(fire.fire, self._home, fuse_id):
            with self._mutex:
                self._resting[fuse_id] = time.monotonic() + REST
        with self._mutex:
            self._working.pop(fuse_id, None)
        self._one_is_over.set()
        self._wake.call()

    def _quietly(self, work: Any, *words: str) -> bool:
        """Whether it went well. One fuse that does not is no end of the clock."""
        try:
            work(*words)
        except AgentctlError as error:
            self._tell(str(error))
            return False
        except Exception as error:  # the fence
            log.exception("%s%s", work.__name__, words)
            self._tell(f"{type(error).__name__}: {error}")
            return False
        return True

    def _tell(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem
