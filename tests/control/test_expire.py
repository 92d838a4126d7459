"""A launch whose time is over is ended as `stop` would end it, and says so."""

from __future__ import annotations

from agentctl import paths
from agentctl.control.expire import expire
from agentctl.store import launches
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until


def test_its_time_is_over(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "tool, work 600", "--timeout", "0.2")
    assert ran.code == 0, ran.err
    waited = agentctl_of(stage, "wait", ran.out.strip())
    assert waited.code == 1
    until(lambda: stage.processes() == [], "agent, tool and shim are gone")
    (note,) = launches.recorded(paths.notes_file(stage.environ["AGENTCTL_HOME"]))
    assert note.expired_at is not None
    assert "timeout" in agentctl_of(stage, "status", ran.out.strip()).out


def test_one_that_ended_in_time_is_not_touched(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 0.1", "--timeout", "600", "--wait")
    assert ran.code == 0, ran.err
    until(lambda: stage.processes() == [], "agent and shim are gone")
    state = stage.environ["AGENTCTL_HOME"]
    (note,) = launches.recorded(paths.notes_file(state))
    expire(state, note.id)
    expire(state, "nosuch")
    (again,) = launches.recorded(paths.notes_file(state))
    assert again.expired_at is None
