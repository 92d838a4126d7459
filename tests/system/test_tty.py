"""Whether somebody sits before a process."""

import os
import subprocess
import sys

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.system import proc, tty
from agentctl.system.identity import ProcessIdentity
from tests.sitting import sitting
from tests.waiting import until


def test_when_it_was_last_typed_at() -> None:
    with sitting() as one:
        one.typed_at(1000.0)
        assert tty.typed_at(one.identity) == 1000.0
        os.write(one.keyboard, b"hello\n")
        until(lambda: tty.typed_at(one.identity) != 1000.0, "the kernel has seen it")
        assert tty.typed_at(one.identity) == os.stat(one.terminal).st_atime


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
        assert tty.typed_at(one.identity) == 1000.0


def test_when_it_last_showed_anything() -> None:
    with sitting() as one:
        one.typed_at(1000.0)
        fd = os.open(one.terminal, os.O_WRONLY | os.O_NOCTTY)
        os.write(fd, b"an answer")
        os.close(fd)
        used = tty.use_by(one.identity)
        assert used is not None
        assert (used.typed_at, used.drawn_at) == (1000.0, os.stat(one.terminal).st_mtime)
        assert used.drawn_at > 1000.0


def test_steps() -> None:
    assert tty.step_of(16.9) == tty.step_of(23.9) == 2


def test_one_that_only_writes_to_its_terminal_has_one() -> None:
    with sitting(reads_elsewhere=True) as one:
        one.typed_at(1000.0)
        assert tty.typed_at(one.identity) == 1000.0


def test_without_a_terminal() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as child:
        identity = proc.read_process(child.pid, proc.boot_id()).identity
        assert tty.typed_at(identity) is None
        child.kill()


def test_its_name_and_when_it_was_opened() -> None:
    with sitting() as one:
        os.utime(one.terminal, (1000.0, 1000.0))
        use = tty.use_by(one.identity)
        status = os.stat(one.terminal)
        assert use == tty.Use(one.terminal, status.st_ctime, 1000.0, 1000.0)
        assert tty.controlling(one.identity) == status.st_rdev


def test_who_has_opened_it() -> None:
    ourselves = proc.read_process(os.getpid(), proc.boot_id()).identity
    with sitting() as one:
        number = tty.controlling(one.identity)
        assert number in tty.opened_by(ourselves)
        assert number not in tty.opened_by(one.identity)  # it is only at it
    assert number not in tty.opened_by(ourselves)


def test_one_that_is_gone() -> None:
    with pytest.raises(Gone):
        tty.typed_at(ProcessIdentity(proc.boot_id(), os.getpid(), 1))


@pytest.mark.parametrize(
    ("number", "major", "minor"), [(34817, 136, 1), (1025, 4, 1), (0x00108810, 136, 0x110)]
)
def test_numbers_of_terminals(number: int, major: int, minor: int) -> None:
    stat = f"1 (a b) c) S 1 1 1 {number} 1 0".encode()
    assert tty.device(stat) == os.makedev(major, minor)


def test_half_a_line() -> None:
    with pytest.raises(Malformed):
        tty.device(b"1 (sh) S 1")
