"""Whether a process made a session's header, told by the time and the id in it.

Pi makes the header, with the session's id and time, in the course of its start, whenever it writes the
file. How long that takes depends on the machine: 0.2 s if it is quiet, 13 s seen at load 12. But right
after it 1.x begins the work that needs node's pool of threads, and the kernel knows when these began:
0 to 0.26 s after the header in all that was seen, on an idle machine and on a loaded one. So a header of
1.x is of the process whose pool began then. In older versions that holds without a terminal only; with
one the pool begins at any later time, or never, and all that is known is how long a start takes.

Its further sessions (`/new`) are told by their ids, which 1.x numbers within a process.
"""

from __future__ import annotations

from typing import NamedTuple

from agentctl.errors import SourceError
from agentctl.system import proc
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.system.threads import threads
from agentctl.truth.look import Look

# Seconds after its start in which a process makes its header, where nothing tells better. A window too
# wide finds two candidates and says so; one too narrow finds none.
WINDOW = 10.0
LAG = 1.0  # seconds from the header to the pool
SLACK = 0.05  # what clocks and ticks may be off by
POOL = "libuv-worker"  # the name of its threads, in every node that 1.x runs on
NODE = frozenset({"node", "nodejs"})
KIN = 4096  # ids of one process are a few apart in a sequence of 2^41, begun at random


class Birth(NamedTuple):
    """When a process began, and its pool of threads (None: not yet, or none that we know by name)."""

    start: float
    pool: float | None
    on_node: bool

    @property
    def latest(self) -> float:
        """No header that it made on its start is later."""
        return max(self.start + WINDOW, (self.pool or 0.0) + SLACK)

    def near_pool(self, made_at: float) -> bool:
        if self.pool is None or made_at - self.start < TICK:
            return False
        return -SLACK < self.pool - made_at < LAG

    def in_window(self, made_at: float) -> bool:
        return TICK < made_at - self.start < WINDOW


def of(process: Process, look: Look) -> Birth:
    start = look.started_at(process)
    try:
        ticks = [thread.start for thread in threads(process) if thread.comm == POOL]
    except SourceError:  # gone since we looked: it tells nothing more
        ticks = []
    since = (min(ticks) - process.identity.start) / proc.TICKS if ticks else None
    on_node = (process.exe or "").rpartition("/")[2] in NODE
    return Birth(start, None if since is None else start + since, on_node)


def kin(one: str, other: str) -> bool:
    """Whether one process made both ids."""
    first, second = sequence(one), sequence(other)
    if first is None or second is None:
        return one == other
    return abs(first - second) < KIN


def sequence(session: str) -> int | None:
    """The 41 bits of a UUIDv7 that 1.x counts up within a process; random in older versions."""
    digits = session.replace("-", "")
    if len(session) != 36 or len(digits) != 32 or digits[12] != "7":
        return None
    try:
        low = int(digits[16:24], 16)
        return int(digits[13:16], 16) << 29 | (low >> 1 & 0x1FFFFFFF)
    except ValueError:
        return None
