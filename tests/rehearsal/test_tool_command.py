"""A command whose start is noticed, and whose end we choose."""

import subprocess
from pathlib import Path

from agentctl.rehearsal.tool_command import ToolCommand

DEADLINE = 20.0


def test_its_start_is_noticed_and_its_end_is_ours(tmp_path: Path) -> None:
    command = ToolCommand(str(tmp_path))
    assert not command.wait_for_start(0)
    tool = subprocess.Popen(command.writing_command.split(), cwd=tmp_path)
    assert command.wait_for_start(DEADLINE)
    assert tool.poll() is None
    assert command.runs
    command.finish()
    assert tool.wait(DEADLINE) == 0
    assert (tmp_path / "errand.copy").exists()


def test_its_kill_is_noticed(tmp_path: Path) -> None:
    command = ToolCommand(str(tmp_path))
    assert not command.runs
    tool = subprocess.Popen(command.command.split(), cwd=tmp_path)
    assert command.wait_for_start(DEADLINE)
    tool.kill()
    tool.wait()
    assert not command.runs


def test_one_that_never_began_needs_no_end(tmp_path: Path) -> None:
    ToolCommand(str(tmp_path)).finish()
