"""A daemon that an agent's own tool has called into being is not the agent's: it serves everybody, and
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
def launched(tmp_path: Path) -> Iterator[Launched]:
    made = Launched(ClaudeStage(tmp_path))
    yield made
    made.stage.close()


def test_it_survives_the_agent(launched: Launched) -> None:
    stage = launched.stage
    program = stage.install()
    settings = " ".join(shlex.quote(f"{k}={v}") for k, v in environ_of(stage).items())
    summon = f"env {settings} {sys.executable} -m agentctl daemon start >/dev/null"
    first, rest = program.read_text().split("\n", 1)
    program.write_text(f"{first}\n{summon}\n{rest}")
    session = launched.launch("work 600")
    found = lock_file.proven(home_of(stage))
    assert found is not None
    process = proc.current(found.identity)
    assert process is not None
    parent = proc.read_process(process.parent, proc.boot_id())
    assert parent.comm == "agentctl-shim", "it is an orphan, and orphans come to the agent's shim"
    ran = launched.call("stop", session)
    assert ran.code == 0, ran.err
    assert daemons_of(stage) == [found.identity.pid]
