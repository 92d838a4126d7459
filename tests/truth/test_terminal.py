"""Whether somebody sits before a process."""

import os
import subprocess
import sys

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.truth import procfs, terminal
from agentctl.truth.model import ProcessIdentity
from tests.sitting import sitting
from tests.waiting import until


def test_when_it_was_last_typed_at() -> None:
    with sitting() as one:
        one.typed_at(1000.0)
        assert terminal.typed_at(one.identity) == 1000.0
        os.write(one.keyboard, b"hello\n")
        until(lambda: terminal.typed_at(one.identity) != 1000.0, "the kernel has seen it")
        assert terminal.typed_at(one.identity) == os.stat(one.terminal).st_atime


def test_what_it_says_itself_is_not_typed() -> None:
    with sitting() as one:
        os.write(one.keyboard, b"hello\n")
        got = b""
        while b"read" not in got:
            got += os.read(one.keyboard, 100)
        one.typed_at(1000.0)
        fd = os.open(one.terminal, os.O_WRONLY | os.O_NOCTTY)
        os.write(fd, b"an answer")
        os.close(fd)
        assert terminal.typed_at(one.identity) == 1000.0


def test_one_that_only_writes_to_its_terminal_has_one() -> None:
    with sitting(reads_elsewhere=True) as one:
        one.typed_at(1000.0)
        assert terminal.typed_at(one.identity) == 1000.0


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
