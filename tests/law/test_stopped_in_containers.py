"""Stopping under the law, where agents run in containers: in each of them the pids begin at 1 again, so
that a tool which names its agent by pid names no agent of any other container."""

import shlex
import subprocess

import pytest

from agentctl.system import proc
from agentctl.testing import Stage
from tests.fakes.containers import TOOL, UNSHARE, need_containers, start_contained
from tests.fakes.doomed import alive
from tests.fakes.stages import named
from tests.law.asking import working
from tests.running import agentctl_of
from tests.waiting import until

NAMES = {"claude-code": "CLAUDE_PID", "opencode": "OPENCODE_PID", "demo": "DEMO_AGENT_PID"}


STAGES = [named(name) for name in NAMES]  # only of agents whose tools know their agent by pid


@pytest.fixture(autouse=True)
def _containers() -> None:
    need_containers()


def marks(stage: Stage, pid: int) -> dict[str, str]:
    """What a tool of an agent with this pid has in its environment."""
    return {NAMES[stage.adapter]: str(pid)}


def test_the_tool_of_an_agent_in_another_container_lives_on(stage: Stage) -> None:
    agent, tool = start_contained(stage, stage.root / "one", marks(stage, 2))
    neighbour, its_tool = start_contained(stage, stage.root / "two", marks(stage, 2))
    assert agent.inner_pid() == neighbour.inner_pid() == 2
    planned = agentctl_of(stage, "stop", f"pid:{agent.pid}", "--dry-run", "--json").json()["planned"]
    assert [each["pid"] for each in planned[0]["processes"]] == [tool.pid]
    ran = agentctl_of(stage, "stop", f"pid:{agent.pid}")
    assert ran.code == 0, ran
    assert not alive(agent)
    assert not alive(tool)
    assert alive(neighbour)
    assert alive(its_tool)


def test_a_tool_in_a_container_is_not_that_of_an_agent_outside_with_this_pid(stage: Stage) -> None:
    """Its agent has inside the pid that another one has out here."""
    agent, session_id = working(stage)
    words = shlex.join(f"{name}={value}" for name, value in marks(stage, agent.pid).items())
    inside = subprocess.Popen(
        [*UNSHARE, "sh", "-c", f"env {words} {TOOL} 1000; true"],
        env=stage.environ,
        cwd=stage.work,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(tools(stage)) == 1, "the tool runs")
        [tool] = tools(stage)
        ran = agentctl_of(stage, "stop", session_id)
        assert ran.code == 0, ran
        assert alive(tool)
    finally:
        inside.kill()
        inside.wait()


def tools(stage: Stage) -> list[proc.Process]:
    return [process for process in stage.processes() if process.comm == TOOL]
