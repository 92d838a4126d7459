"""Whether somebody sits before a process."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.truth import procfs, terminal
from agentctl.truth.model import ProcessIdentity
from tests.waiting import until

# Takes its terminal as its own, as a shell's job has it; then reads a line, then waits.
PROGRAM = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl({fd}, termios.TIOCSCTTY, 0)
print("ready", flush=True)
sys.stdin.readline()
print("read", flush=True)
sys.stdin.readline()
"""


@contextmanager
def sitting(*, at_streams: bool = True) -> Iterator[tuple[ProcessIdentity, int]]:
    """A process with a controlling terminal, and our end of it."""
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    if not at_streams:
        streams = {"stdin": subprocess.PIPE, "stdout": theirs, "stderr": theirs}
    child = subprocess.Popen([sys.executable, "-c", PROGRAM.format(fd=1)], **streams)  # type: ignore[call-overload]
    os.close(theirs)
    try:
        assert b"ready" in os.read(ours, 100)
        yield procfs.read_process(child.pid, procfs.boot_id()).identity, ours
    finally:
        child.kill()
        if child.stdin is not None:
            child.stdin.close()
        child.wait()
        os.close(ours)


def test_when_it_was_last_typed_at() -> None:
    with sitting() as (identity, ours):
        name = os.readlink(f"/proc/{identity.pid}/fd/0")
        os.utime(name, (1000.0, 1000.0))
        assert terminal.typed_at(identity) == 1000.0
        os.write(ours, b"hello\n")
        until(lambda: terminal.typed_at(identity) != 1000.0, "the kernel has seen it")
        told = terminal.typed_at(identity)
        assert told == os.stat(name).st_atime


def test_what_it_says_itself_is_not_typed() -> None:
    with sitting() as (identity, ours):
        name = os.readlink(f"/proc/{identity.pid}/fd/0")
        os.write(ours, b"hello\n")
        got = b""
        while b"read" not in got:
            got += os.read(ours, 100)
        os.utime(name, (1000.0, 1000.0))
        fd = os.open(name, os.O_WRONLY | os.O_NOCTTY)
        os.write(fd, b"an answer")
        os.close(fd)
        assert terminal.typed_at(identity) == 1000.0


def test_one_that_only_writes_to_its_terminal_has_one() -> None:
    with sitting(at_streams=False) as (identity, _):
        assert terminal.typed_at(identity) is not None


def test_without_a_terminal() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as child:
        identity = procfs.read_process(child.pid, procfs.boot_id()).identity
        assert terminal.typed_at(identity) is None
        child.kill()


def test_one_that_is_gone() -> None:
    with pytest.raises(Gone):
        terminal.typed_at(ProcessIdentity(procfs.boot_id(), os.getpid(), 1))


@pytest.mark.parametrize(
    ("number", "major", "minor"), [(34817, 136, 1), (1025, 4, 1), (0x00108810, 136, 0x110)]
)
def test_numbers_of_terminals(number: int, major: int, minor: int) -> None:
    stat = f"1 (a b) c) S 1 1 1 {number} 1 0".encode()
    assert terminal.device(stat) == os.makedev(major, minor)


def test_half_a_line() -> None:
    with pytest.raises(Malformed):
        terminal.device(b"1 (sh) S 1")
