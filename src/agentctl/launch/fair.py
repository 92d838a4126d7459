"""Waits for the end of a process for so many seconds in which that process could have run.

On a loaded machine a process is late by the time it stood in the queue for a processor. The kernel
counts that, and it does not count here. Not for ever: ten times as long is the most.
"""

from __future__ import annotations

import time

from agentctl.system.pidfd import Handle

MOST = 10  # times the seconds asked for
BEAT = 0.1  # seconds: the least that is slept, however little is left


def ended(agent: Handle, pid: int, seconds: float) -> bool:
    """Whether it ended in that time. `pid`: who does its work, if that is another process."""
    began, before = time.monotonic(), queued(pid)
    left = seconds
    while left > 0:
        if agent.wait(max(left, BEAT)):
            return True
        left = remaining(seconds, time.monotonic() - began, queued(pid) - before)
    return agent.wait(0)


def remaining(seconds: float, passed: float, queued_meanwhile: float) -> float:
    """Of so many seconds, when so many have passed, and it stood in the queue for a part of these."""
    return min(seconds + queued_meanwhile, MOST * seconds) - passed


def queued(pid: int) -> float:
    """Seconds that its first thread has waited for a processor, ever. A hint, and no more: 0 where the
    kernel does not count, or where nobody of that pid is."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
