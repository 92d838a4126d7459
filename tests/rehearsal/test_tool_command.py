"""A command whose beginning is seen and whose end is ours to say."""

import subprocess
from pathlib import Path

from agentctl.rehearsal.tool_command import Errand

DEADLINE = 20.0


def test_it_is_seen_to_begin_and_let_end(tmp_path: Path) -> None:
    errand = Errand(str(tmp_path))
    assert not errand.begun(0)
    tool = subprocess.Popen(errand.daring.split(), cwd=tmp_path)
    assert errand.begun(DEADLINE)
    assert tool.poll() is None
    assert errand.runs
    errand.finish()
    assert tool.wait(DEADLINE) == 0
    assert (tmp_path / "errand.copy").exists()


def test_it_is_seen_to_be_killed(tmp_path: Path) -> None:
    errand = Errand(str(tmp_path))
    assert not errand.runs
    tool = subprocess.Popen(errand.command.split(), cwd=tmp_path)
    assert errand.begun(DEADLINE)
    tool.kill()
    tool.wait()
    assert not errand.runs


def test_one_that_never_began_needs_no_end(tmp_path: Path) -> None:
    Errand(str(tmp_path)).finish()
