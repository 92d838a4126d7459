"""A process's controlling terminal: when somebody last typed there, and when it last showed anything.

The kernel keeps the time at which a terminal was last read from, which is when somebody last typed, and
the time at which it was last written to. Both move in steps of eight seconds, lest they tell how fast:
each is the first moment of its step. What `w` shows as IDLE is the same.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from agentctl.errors import Gone, Malformed
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc_entry import STAT_CAP, Entry

STREAMS = ("fd/0", "fd/1", "fd/2")
STEP = 8  # seconds
PSEUDO = 136  # the major number of the terminals behind /dev/pts


class Use(NamedTuple):
    """A terminal, as a process that is at it has it open."""

    name: str  # as that process would call it: /dev/pts/3
    opened_at: float
    typed_at: float  # the same as long as nobody has
    drawn_at: float


def typed_at(identity: ProcessIdentity) -> float | None:
    """None: it has no terminal, or none that it reads from or writes to. Raises SourceError."""
    use = use_by(identity)
    return use.typed_at if use is not None else None


def use_by(identity: ProcessIdentity) -> Use | None:
    """The same, with the name of the terminal, when it was opened and when it was last drawn on."""
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
                name = entry.link(stream) or f"{os.major(terminal)}:{os.minor(terminal)}"
                # reading and writing leave the time of change alone; a pseudo-terminal is made anew
                # each time that one is opened
                return Use(name, found.st_ctime, found.st_atime, found.st_mtime)
    return None


def controlling(identity: ProcessIdentity) -> int | None:
    """Its terminal's number, as `device` tells it. Raises SourceError."""
    with Entry(identity) as entry:
        return device(entry.read("stat", STAT_CAP))


def opened_by(identity: ProcessIdentity) -> set[int]:
    """The numbers of the pseudo-terminals whose other end it holds: it has opened them, shows what is
    written there and does the typing, as a terminal emulator or tmux does. Raises SourceError."""
    found = set()
    with Entry(identity) as entry:
        for number, target in entry.links("fd"):
            if target.rpartition("/")[2] == "ptmx":
                try:
                    told = entry.read(f"fdinfo/{number}", STAT_CAP)
                except Gone:  # closed since
                    continue
                index = told.partition(b"tty-index:")[2].split(None, 1)[:1]
                found |= {os.makedev(PSEUDO, int(digits)) for digits in index}
    return found


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


def step_of(moment: float) -> int:
    """The number of the step that it falls into."""
    return int(moment) // STEP
