"""A daemon that an agent's own tool has started does not belong to the agent: it serves every caller and
lives on when the agent is stopped."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.daemon_client import lock_file
from agentctl.system import proc
from tests.daemon.serving import daemons_of, home_of
from tests.fakes.claude import ClaudeStage
from tests.launched import Launched
from tests.running import environ_of


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Launched]:
    agents = Launched(ClaudeStage(tmp_path))
    yield agents
    agents.stage.close()


def test_the_daemon_survives_the_agent(agents: Launched) -> None:
    stage = agents.stage
    program = stage.install()
    settings = " ".join(shlex.quote(f"{k}={v}") for k, v in environ_of(stage).items())
    command = f"env {settings} {sys.executable} -m agentctl daemon start >/dev/null"
    first, rest = program.read_text().split("\n", 1)
    program.write_text(f"{first}\n{command}\n{rest}")
    session = agents.launch("work 600")
    holder = lock_file.find_proven(home_of(stage))
    assert holder is not None
    process = proc.find_process(holder.identity)
    assert process is not None
    parent = proc.read_process(process.parent, proc.read_boot_id())
    assert parent.comm == "agentctl-shim", "the daemon is an orphan, and the agent's shim adopts orphans"
    ran = agents.call("stop", session)
    assert ran.code == 0, ran.err
    assert daemons_of(stage) == [holder.identity.pid]
