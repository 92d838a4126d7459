"""Whether somebody sits before a process: its controlling terminal, and when that was last typed at.

The kernel keeps the time at which a terminal was last read from, which is when somebody last typed (it
moves in steps of eight seconds, lest it tell how fast); what `w` shows as IDLE is the same.
"""

from __future__ import annotations

import os

from agentctl.errors import Gone, Malformed
from agentctl.truth.model import ProcessIdentity
from agentctl.truth.procdir import STAT_CAP, Entry

STREAMS = ("fd/0", "fd/1", "fd/2")


def typed_at(identity: ProcessIdentity) -> float | None:
    """None: it has no terminal, or none that it reads from or writes to. Raises SourceError."""
    with Entry(identity) as entry:
        terminal = device(entry.read("stat", STAT_CAP))
        if terminal is None:
            return None
        for stream in STREAMS:
            try:
                found = entry.status(stream)
            except Gone:  # it has closed that one
                continue
            if found.st_rdev == terminal:
                return found.st_atime
    return None


def device(stat: bytes) -> int | None:
    """The controlling terminal, as `st_rdev` has it; None: it has none."""
    fields = stat.rpartition(b")")[2].split()
    if len(fields) < 5:
        raise Malformed("/proc/PID/stat", "too few fields")
    number = int(fields[4])
    if number == 0:
        return None
    # in 32 bits: the minor's upper twelve, the major's twelve, the minor's lower eight
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))
