"""Stopping under the law, where agents run in containers: the pids of each begin at 1, so a tool that
names its agent by pid means no agent of another container."""

import shlex
import subprocess

import pytest

from agentctl.system import proc
from agentctl.testing import Stage
from tests.fakes.containers import TOOL, UNSHARE, need_containers, start_contained
from tests.fakes.doomed import alive
from tests.fakes.stages import find_stage
from tests.law.asking import start_agent
from tests.running import agentctl_of
from tests.waiting import until

NAMES = {"claude-code": "CLAUDE_PID", "opencode": "OPENCODE_PID", "demo": "DEMO_AGENT_PID"}


STAGES = [find_stage(name) for name in NAMES]  # only of agents whose tools know their agent by pid


@pytest.fixture(autouse=True)
def _containers() -> None:
    need_containers()


def make_marks(stage: Stage, pid: int) -> dict[str, str]:
    """Return what a tool of an agent with this pid has in its environment."""
    return {NAMES[stage.adapter]: str(pid)}


def test_the_tool_of_an_agent_in_another_container_lives_on(stage: Stage) -> None:
    agent, tool = start_contained(stage, stage.root / "one", make_marks(stage, 2))
    neighbour, its_tool = start_contained(stage, stage.root / "two", make_marks(stage, 2))
    assert agent.read_inner_pid() == neighbour.read_inner_pid() == 2
    planned = agentctl_of(stage, "stop", f"pid:{agent.pid}", "--dry-run", "--json").json()["planned"]
    assert [each["pid"] for each in planned[0]["processes"]] == [tool.pid]
    ran = agentctl_of(stage, "stop", f"pid:{agent.pid}")
    assert ran.code == 0, ran
    assert not alive(agent)
    assert not alive(tool)
    assert alive(neighbour)
    assert alive(its_tool)


def test_a_tool_in_a_container_does_not_belong_to_an_agent_outside_with_the_same_pid(
    stage: Stage,
) -> None:
    """In there its agent has the pid that another agent has out here."""
    agent, session_id = start_agent(stage)
    words = shlex.join(f"{name}={value}" for name, value in make_marks(stage, agent.pid).items())
    inside = subprocess.Popen(
        [*UNSHARE, "sh", "-c", f"env {words} {TOOL} 1000; true"],
        env=stage.environ,
        cwd=stage.work,
        stdin=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(find_tools(stage)) == 1, "the tool runs")
        [tool] = find_tools(stage)
        ran = agentctl_of(stage, "stop", session_id)
        assert ran.code == 0, ran
        assert alive(tool)
    finally:
        inside.kill()
        inside.wait()


def find_tools(stage: Stage) -> list[proc.Process]:
    return [process for process in stage.processes() if process.comm == TOOL]
