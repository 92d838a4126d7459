"""The words for the processes of a session."""

import os

from agentctl.process.kinship import command_of, line_of
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import Process


def described(pid: int, parent: int) -> Process:
    return Process(ProcessIdentity("boot", pid, pid), parent, "S", "tool")


def test_a_line_ends_where_nobody_is_above() -> None:
    table = {pid: described(pid, parent) for pid, parent in ((1, 0), (5, 1), (6, 5))}
    assert line_of(table, 6) == [6, 5, 1]
    assert line_of(table, 7) == [7]


def test_a_line_that_bites_its_tail() -> None:
    """A table is not read in one instant."""
    assert line_of({5: described(5, 6), 6: described(6, 5)}, 5) == [5, 6]


def test_a_command_is_its_words() -> None:
    ourselves = proc.read_process(os.getpid(), proc.boot_id())
    assert command_of(ourselves) == " ".join(ourselves.argv)


def test_one_that_is_gone_has_its_name() -> None:
    assert command_of(described(1 << 22, 1)) == "tool"
