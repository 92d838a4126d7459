"""When a person last typed at the terminal of a process."""

import os
import subprocess
import sys

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.system import proc, tty
from agentctl.system.proc import ProcessIdentity
from tests.sitting import sitting
from tests.waiting import until


def test_the_time_of_the_last_typing_is_read() -> None:
    with sitting() as one:
        one.typed_at(1000.0)
        assert tty.read_typed_at(one.identity) == 1000.0
        os.write(one.keyboard, b"hello\n")
        until(lambda: tty.read_typed_at(one.identity) != 1000.0, "the kernel has seen it")
        assert tty.read_typed_at(one.identity) == os.stat(one.terminal).st_atime


def test_output_is_not_typing() -> None:
    with sitting() as one:
        os.write(one.keyboard, b"hello\n")
        output = b""
        while b"read" not in output:
            output += os.read(one.keyboard, 100)
        one.typed_at(1000.0)
        fd = os.open(one.terminal, os.O_WRONLY | os.O_NOCTTY)
        os.write(fd, b"an answer")
        os.close(fd)
        assert tty.read_typed_at(one.identity) == 1000.0


def test_the_time_of_the_last_output_is_read() -> None:
    with sitting() as one:
        one.typed_at(1000.0)
        fd = os.open(one.terminal, os.O_WRONLY | os.O_NOCTTY)
        os.write(fd, b"an answer")
        os.close(fd)
        used = tty.read_terminal(one.identity)
        assert used is not None
        assert (used.typed_at, used.drawn_at) == (1000.0, os.stat(one.terminal).st_mtime)
        assert used.drawn_at > 1000.0


def test_times_within_eight_seconds_are_one_step() -> None:
    assert tty.step_number(16.9) == tty.step_number(23.9) == 2


def test_a_process_that_only_writes_to_a_terminal_has_one() -> None:
    with sitting(reads_elsewhere=True) as one:
        one.typed_at(1000.0)
        assert tty.read_typed_at(one.identity) == 1000.0


def test_a_process_without_a_terminal_has_no_typing() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as child:
        identity = proc.read_process(child.pid, proc.read_boot_id()).identity
        assert tty.read_typed_at(identity) is None
        child.kill()


def test_a_terminal_has_its_name_and_times() -> None:
    with sitting() as one:
        os.utime(one.terminal, (1000.0, 1000.0))
        use = tty.read_terminal(one.identity)
        status = os.stat(one.terminal)
        assert use == tty.Terminal(one.terminal, status.st_ctime, 1000.0, 1000.0)
        assert tty.find_controlling(one.identity) == status.st_rdev


def test_the_master_of_a_terminal_is_listed() -> None:
    ourselves = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    with sitting() as one:
        number = tty.find_controlling(one.identity)
        assert number in tty.list_masters(ourselves)
        assert number not in tty.list_masters(one.identity)  # it has the terminal, not the master
    assert number not in tty.list_masters(ourselves)


def test_the_terminal_of_an_ended_process_is_gone() -> None:
    with pytest.raises(Gone):
        tty.read_typed_at(ProcessIdentity(proc.read_boot_id(), os.getpid(), 1))


@pytest.mark.parametrize(
    ("number", "major", "minor"), [(34817, 136, 1), (1025, 4, 1), (0x00108810, 136, 0x110)]
)
def test_the_device_number_is_parsed(number: int, major: int, minor: int) -> None:
    stat = f"1 (a b) c) S 1 1 1 {number} 1 0".encode()
    assert tty.parse_device(stat) == os.makedev(major, minor)


def test_half_a_stat_line_is_malformed() -> None:
    with pytest.raises(Malformed):
        tty.parse_device(b"1 (sh) S 1")
