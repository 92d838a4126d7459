"""What the law tests have in common: an agent at work, and agentctl asked as a person asks it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import agentctl
from agentctl.testing import Puppet, Stage

LIVE = ("running", "waiting", "idle")
SOURCES = str(Path(agentctl.__file__).parent.parent)
REPOSITORY = str(Path(__file__).parent.parent.parent)


def working(stage: Stage, cwd: Path | None = None) -> tuple[Puppet, str]:
    """A fake agent with an open turn, and its session's id."""
    puppet = stage.start(cwd)
    puppet.do("work")
    assert puppet.session_id is not None
    return puppet, puppet.session_id


def environ_of(stage: Stage, **more: str) -> dict[str, str]:
    """For a process that is to see this stage and nothing else."""
    path = os.pathsep.join((SOURCES, REPOSITORY))
    return {**stage.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def agentctl_json(stage: Stage, *words: str, **more: str) -> dict[str, Any]:
    """The answer of the real command line."""
    done = subprocess.run(
        [sys.executable, "-m", "agentctl", *words, "--json"],
        env=environ_of(stage, **more),
        cwd=stage.root,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (words, done.stderr.decode())
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
