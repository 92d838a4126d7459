"""A short soak, whole: `make soak` is the long one."""

import os
import subprocess
import sys

import pytest

from agentctl.rehearsal import room

REASON = "only root can have a disk of its own in a room" if os.geteuid() else room.obstacle()
SHORT = ("--seconds", "50", "--agents", "10", "--kill-every", "8")


@pytest.mark.skipif(REASON is not None, reason=str(REASON))
@pytest.mark.timeout(400)
def test_all_is_accounted_for() -> None:
    program = [sys.executable, "-m", "tests.soak.run", *SHORT]
    played = subprocess.run(room.words(program), capture_output=True, text=True, check=False)
    assert (played.returncode, played.stderr) == (0, ""), played.stdout
    assert played.stdout.endswith("all is accounted for\n")
