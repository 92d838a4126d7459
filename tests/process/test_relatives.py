"""The processes of a session: ancestors and command lines."""

import os

from agentctl.process.relatives import ancestors, command_line
from agentctl.system import proc
from agentctl.system.proc import Process, ProcessIdentity


def make_process(pid: int, parent: int) -> Process:
    return Process(ProcessIdentity("boot", pid, pid), parent, "S", "tool")


def test_ancestors_end_at_the_first_process() -> None:
    table = {pid: make_process(pid, parent) for pid, parent in ((1, 0), (5, 1), (6, 5))}
    assert ancestors(table, 6) == [6, 5, 1]
    assert ancestors(table, 7) == [7]


def test_ancestors_end_in_a_loop() -> None:
    """A table is not read in one instant."""
    assert ancestors({5: make_process(5, 6), 6: make_process(6, 5)}, 5) == [5, 6]


def test_a_command_line_is_the_arguments() -> None:
    ourselves = proc.read_process(os.getpid(), proc.read_boot_id())
    assert command_line(ourselves) == " ".join(ourselves.argv)


def test_the_command_line_of_a_process_that_ended_is_its_name() -> None:
    assert command_line(make_process(1 << 22, 1)) == "tool"
