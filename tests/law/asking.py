"""What the law tests share: to start a working agent, and to call agentctl as a person does."""

import os
from pathlib import Path
from typing import Any

import agentctl
from agentctl.testing import Puppet, Stage
from tests.running import agentctl_of

LIVE = ("running", "waiting", "idle")
SOURCES = str(Path(agentctl.__file__).parent.parent)
REPOSITORY = str(Path(__file__).parent.parent.parent)


def start_agent(stage: Stage, cwd: Path | None = None) -> tuple[Puppet, str]:
    """Start a fake agent and open a turn. Return the agent and the id of its session."""
    puppet = stage.start(cwd)
    puppet.do("work")
    assert puppet.session_id is not None
    return puppet, puppet.session_id


def environ_of(stage: Stage, **more: str) -> dict[str, str]:
    """Return the environment of a process that sees this stage and nothing else."""
    path = os.pathsep.join((SOURCES, REPOSITORY))
    return {**stage.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def agentctl_json(stage: Stage, *words: str, **more: str) -> dict[str, Any]:
    """Return the answer of the real command line."""
    ran = agentctl_of(stage, *words, "--json", **more)
    assert ran.code == 0, (words, ran.err)
    return ran.json()
