"""A process with a user at its keyboard: a real one, with a controlling terminal."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity

# Takes its terminal as its own, as a shell's job has it; then reads a line, says so, and waits.
_PROGRAM = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
print("ready", flush=True)
sys.stdin.readline()
print("read", flush=True)
sys.stdin.readline()
"""


class Sitting(NamedTuple):
    identity: ProcessIdentity
    keyboard: int  # our end of the terminal
    terminal: str  # its name

    def typed_at(self, moment: float) -> None:
        """As if the last key had been pressed then."""
        os.utime(self.terminal, (moment, moment))


@contextmanager
def sitting(*, reads_elsewhere: bool = False) -> Iterator[Sitting]:
    ours, theirs = pty.openpty()
    elsewhere, other = os.pipe()
    stdin = elsewhere if reads_elsewhere else theirs
    child = subprocess.Popen([sys.executable, "-c", _PROGRAM], stdin=stdin, stdout=theirs, stderr=theirs)
    try:
        assert b"ready" in os.read(ours, 100)
        identity = proc.read_process(child.pid, proc.read_boot_id()).identity
        yield Sitting(identity, ours, os.ttyname(theirs))
    finally:
        child.kill()
        child.wait()
        for fd in (ours, theirs, elsewhere, other):
            os.close(fd)
