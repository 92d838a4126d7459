"""One process's directory in /proc: whose it is, and what its first line says."""

import os
import subprocess

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.system import proc, proc_entry
from agentctl.system.identity import ProcessIdentity


def line(state: bytes = b"S", flags: int = 0, threads: int = 1) -> bytes:
    fields = [state, b"7", *[b"0"] * 4, b"%d" % flags, *[b"0"] * 10, b"%d" % threads, b"0", b"4711"]
    return b"12 (a (b) c) " + b" ".join(fields)


@pytest.mark.parametrize("raw", [b"", b"1 (x) S", b"no parentheses at all", b"1 (x) S 1 2 3"])
def test_a_line_that_is_no_stat_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        proc_entry.parse_stat(raw)


def test_an_old_kernel_says_nothing_of_the_exit() -> None:
    stat = proc_entry.parse_stat(line(b"Z"))
    assert (stat.comm, stat.state, stat.parent, stat.start) == ("a (b) c", "Z", 7, 4711)
    assert (stat.exit_status, stat.layout) == (0, 0)


def test_one_that_is_being_taken_down_says_so() -> None:
    assert proc_entry.parse_stat(line(flags=0x400100 | proc_entry.EXITING)).ending
    assert not proc_entry.parse_stat(line(flags=0x400100)).ending


def test_how_many_threads_it_has() -> None:
    assert proc_entry.parse_stat(line(threads=12)).threads == 12


def test_an_entry_is_of_the_process_that_was_meant_or_of_none() -> None:
    me = proc.read_process(os.getpid(), proc.boot_id()).identity
    with proc_entry.Entry(me) as entry:
        assert entry.shown()[0] == os.geteuid()
    with pytest.raises(Gone), proc_entry.Entry(ProcessIdentity(me.boot, me.pid, me.start + 1)):
        pass


def test_of_a_process_that_has_ended_nothing_is_read() -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    identity = proc.read_process(child.pid, proc.boot_id()).identity
    with proc_entry.Entry(identity) as entry:
        child.kill()
        child.wait()
        with pytest.raises(Gone):
            entry.read("cmdline", 100)
