"""A process's controlling terminal: when the user last typed there, and when it was last written to.

The kernel keeps the time of the last read, which is when the user last typed, and of the last write.
Both move in steps of eight seconds, so that they do not reveal the rhythm of typing: each is the
beginning of its step. `w` shows the same time as IDLE.
"""

from __future__ import annotations

import os

from agentctl.errors import Gone, Malformed
from agentctl.light_typing import NamedTuple
from agentctl.system.proc import ProcessIdentity
from agentctl.system.procfs import STAT_CAP, Entry

STREAMS = ("fd/0", "fd/1", "fd/2")
STEP = 8  # seconds
PSEUDO = 136  # the major number of the terminals behind /dev/pts


class Terminal(NamedTuple):
    """A terminal that a process has open."""

    name: str  # as the process names it: /dev/pts/3
    opened_at: float
    typed_at: float  # does not change until the user types
    drawn_at: float


def read_typed_at(identity: ProcessIdentity) -> float | None:
    """Return when the user last typed at the process's terminal; None: see `read_terminal`. Raises
    SourceError."""
    terminal = read_terminal(identity)
    return terminal.typed_at if terminal is not None else None


def read_terminal(identity: ProcessIdentity) -> Terminal | None:
    """Return the controlling terminal; None if the process has none, or none of its streams is on it.
    Raises SourceError."""
    with Entry(identity) as entry:
        device = parse_device(entry.read("stat", STAT_CAP))
        if device is None:
            return None
        for stream in STREAMS:
            try:
                status = entry.status(stream)
            except Gone:  # the stream is closed
                continue
            if status.st_rdev == device:
                name = entry.link(stream) or f"{os.major(device)}:{os.minor(device)}"
                # Reads and writes do not change ctime, and each opening makes a new pseudo-terminal.
                return Terminal(name, status.st_ctime, status.st_atime, status.st_mtime)
    return None


def find_controlling(identity: ProcessIdentity) -> int | None:
    """Return the device number of the controlling terminal; None: there is none. Raises SourceError."""
    with Entry(identity) as entry:
        return parse_device(entry.read("stat", STAT_CAP))


def list_masters(identity: ProcessIdentity) -> set[int]:
    """Return the device numbers of the pseudo-terminals whose other end the process holds, as a terminal
    emulator or tmux does. Raises SourceError."""
    numbers = set()
    with Entry(identity) as entry:
        for number, target in entry.links("fd"):
            if target.rpartition("/")[2] == "ptmx":
                try:
                    text = entry.read(f"fdinfo/{number}", STAT_CAP)
                except Gone:  # closed since
                    continue
                index = text.partition(b"tty-index:")[2].split(None, 1)[:1]
                numbers |= {os.makedev(PSEUDO, int(digits)) for digits in index}
    return numbers


def parse_device(stat: bytes) -> int | None:
    """Return the controlling terminal of a stat line, as in `st_rdev`; None: there is none. Raises
    Malformed."""
    fields = stat.rpartition(b")")[2].split()
    if len(fields) < 5:
        raise Malformed("/proc/PID/stat", "too few fields")
    number = int(fields[4])
    if number == 0:
        return None
    # 32 bits: twelve high bits of the minor, twelve of the major, eight low bits of the minor
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))


def step_number(moment: float) -> int:
    """Return the number of the eight-second step of this time."""
    return int(moment) // STEP
