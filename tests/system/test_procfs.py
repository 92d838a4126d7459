"""The files below /proc: real processes, and lines of `stat` as kernels write them."""

import os
import subprocess

import pytest

from agentctl.errors import Gone, Malformed
from agentctl.system import proc, procfs
from agentctl.system.proc import ProcessIdentity


def make_stat(state: bytes = b"S", flags: int = 0, threads: int = 1) -> bytes:
    fields = [state, b"7", *[b"0"] * 4, b"%d" % flags, *[b"0"] * 10, b"%d" % threads, b"0", b"4711"]
    return b"12 (a (b) c) " + b" ".join(fields)


@pytest.mark.parametrize("raw", [b"", b"1 (x) S", b"no parentheses at all", b"1 (x) S 1 2 3"])
def test_a_line_that_is_no_stat_is_malformed(raw: bytes) -> None:
    with pytest.raises(Malformed):
        procfs.parse_stat(raw)


def test_a_stat_line_of_an_old_kernel_has_no_exit_status() -> None:
    stat = procfs.parse_stat(make_stat(b"Z"))
    assert (stat.comm, stat.state, stat.parent, stat.start) == ("a (b) c", "Z", 7, 4711)
    assert (stat.exit_status, stat.layout) == (0, 0)


def test_an_ending_process_has_the_flag() -> None:
    assert procfs.parse_stat(make_stat(flags=0x400100 | procfs.EXITING)).is_ending
    assert not procfs.parse_stat(make_stat(flags=0x400100)).is_ending


def test_the_number_of_threads_is_parsed() -> None:
    assert procfs.parse_stat(make_stat(threads=12)).threads == 12


def test_an_entry_of_another_process_with_the_pid_is_gone() -> None:
    me = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    with procfs.Entry(me) as entry:
        assert entry.read_owner()[0] == os.geteuid()
    with pytest.raises(Gone), procfs.Entry(ProcessIdentity(me.boot, me.pid, me.start + 1)):
        pass


def test_an_entry_of_an_ended_process_reads_nothing() -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    identity = proc.read_process(child.pid, proc.read_boot_id()).identity
    with procfs.Entry(identity) as entry:
        child.kill()
        child.wait()
        with pytest.raises(Gone):
            entry.read("cmdline", 100)
