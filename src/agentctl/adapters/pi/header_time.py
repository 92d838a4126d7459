"""Decide by its time and id whether a process created a session's header.

Pi creates the header, with the session's id and time, during its start, whenever it writes the file. How
long a start takes depends on the machine: 0.2 s if it is quiet, 13 s measured at load 12. But right
after the header, 1.x starts node's pool of threads, and the kernel knows when these began: 0 to 0.26 s
later in all measurements, on an idle machine and on a loaded one. So a header of 1.x belongs to the
process whose pool began then. In older versions that holds only without a terminal; with one the pool
begins at any later time, or never, and only the length of a start is known.

Further sessions (`/new`) are recognised by their ids, which 1.x numbers within a process.
"""

from __future__ import annotations

from agentctl.errors import SourceError
from agentctl.light_typing import NamedTuple
from agentctl.system import proc
from agentctl.system.clock import TICK
from agentctl.system.proc import Process
from agentctl.truth.look import Look

# Seconds after its start in which a process creates its header, if there is no pool. With a window too
# wide there are two candidates, which is reported; with one too narrow there is none.
WINDOW = 10.0
LAG = 1.0  # seconds from the header to the pool
SLACK = 0.05  # seconds by which clocks and ticks may be off
POOL = "libuv-worker"  # the name of its threads, in every node that 1.x runs on
NODE = frozenset({"node", "nodejs"})
KIN = 4096  # ids of one process are a few apart in a sequence of 2^41, begun at random


class Birth(NamedTuple):
    """When a process began, and its pool of threads (None: not yet, or not known by name)."""

    start: float
    pool: float | None
    on_node: bool

    @property
    def latest(self) -> float:
        """No header from its start is later."""
        return max(self.start + WINDOW, (self.pool or 0.0) + SLACK)

    def is_near_pool(self, created_at: float) -> bool:
        if self.pool is None or created_at - self.start < TICK:
            return False
        return -SLACK < self.pool - created_at < LAG

    def is_in_window(self, created_at: float) -> bool:
        return TICK < created_at - self.start < WINDOW


def read_birth(process: Process, look: Look) -> Birth:
    start = look.find_start_time(process)
    try:
        ticks = process.find_thread_start(POOL)
    except SourceError:  # the process has ended
        ticks = None
    since = (ticks - process.identity.start) / proc.TICKS if ticks is not None else None
    on_node = (process.exe or "").rpartition("/")[2] in NODE
    return Birth(start, None if since is None else start + since, on_node)


def are_kin(one: str, other: str) -> bool:
    """Return True if one process created both ids."""
    first, second = read_sequence(one), read_sequence(other)
    if first is None or second is None:
        return one == other
    return abs(first - second) < KIN


def read_sequence(session: str) -> int | None:
    """Return the 41 bits of a UUIDv7 that 1.x counts within a process; random in older versions."""
    digits = session.replace("-", "")
    if len(session) != 36 or len(digits) != 32 or digits[12] != "7":
        return None
    try:
        low = int(digits[16:24], 16)
        return int(digits[13:16], 16) << 29 | (low >> 1 & 0x1FFFFFFF)
    except ValueError:
        return None
