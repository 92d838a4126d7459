"""A fuse ends the sessions that it is on, and no other, with a proof."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentctl import paths
from agentctl.errors import Unreachable
from agentctl.fuses import stop
from agentctl.sessions import query
from agentctl.state import fuses, journal
from agentctl.state.fuses import Action, Fuse
from agentctl.truth.model import Problem
from agentctl.truth.survey import Survey
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of
from tests.waiting import until


@pytest.fixture
def ours(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    """This process sees the stage and nothing else."""
    for name in list(os.environ):
        if name.startswith("AGENTCTL_"):
            monkeypatch.delenv(name)
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return stage


def launch_agent(stage: DemoStage, cwd: Path, *words: str) -> str:
    cwd.mkdir(parents=True, exist_ok=True)
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", str(cwd), *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def set_fuse(stage: DemoStage, **on: Any) -> Fuse:
    return fuses.set_fuse(_notes(stage), (Action("stop"),), 0.0, **on)


def _notes(stage: DemoStage) -> str:
    return paths.database_file(stage.environ["AGENTCTL_HOME"])


def _stop(stage: DemoStage, fuse: Fuse) -> dict[str, Any]:
    return stop.stop_sessions(stage.environ["AGENTCTL_HOME"], fuse, 0)


def live(stage: DemoStage) -> set[str | None]:
    return {session.observation.session_id for session in stage.survey().sessions}


def test_a_fuse_on_a_directory_ends_sessions_in_it_and_below(ours: DemoStage) -> None:
    here, below = launch_agent(ours, ours.work / "a"), launch_agent(ours, ours.work / "a/b")
    beside = launch_agent(ours, ours.work / "ab")
    result = _stop(ours, set_fuse(ours, directory=str((ours.work / "a").resolve())))
    assert result["ok"]
    assert {each["id"] for each in result["stopped"]} == {here, below}
    assert all(each["ended"] >= 1 and each["survivors"] == [] for each in result["stopped"])
    assert live(ours) == {beside}


def test_a_fuse_on_a_session_ends_only_that_one(ours: DemoStage) -> None:
    one, other = launch_agent(ours, ours.work / "a"), launch_agent(ours, ours.work / "b")
    result = _stop(ours, set_fuse(ours, session=("demo", one)))
    assert [each["id"] for each in result["stopped"]] == [one]
    assert live(ours) == {other}


def test_a_target_without_a_session_is_a_success(ours: DemoStage) -> None:
    assert _stop(ours, set_fuse(ours, directory="/no/such")) == {"ok": True, "stopped": []}
    assert _stop(ours, set_fuse(ours, session=("demo", "nosuch"))) == {"ok": True, "stopped": []}


def test_absent_is_not_dead(ours: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Survey([], [Problem("demo", "late", "no answer in 2 s", "")])
    monkeypatch.setattr(query, "survey_sessions", lambda: late)
    with pytest.raises(Unreachable, match="cannot tell whether session x lives: late"):
        _stop(ours, set_fuse(ours, session=("demo", "x")))
    assert _stop(ours, set_fuse(ours, session=("pi", "x")))["ok"]


def test_a_timeout_ends_its_agent_and_is_recorded_once(ours: DemoStage) -> None:
    one = launch_agent(ours, ours.work / "a", "--timeout", "1h")
    (timeout,) = fuses.list_active(_notes(ours))
    assert timeout.session_id == one
    assert _stop(ours, timeout)["ok"]
    _stop(ours, timeout)
    until(lambda: live(ours) == set(), "it has ended")
    assert [e.type for e in journal.read_after(_notes(ours), 0)].count("launch.expired") == 1


def test_a_directory_that_is_no_path_matches_nothing(ours: DemoStage) -> None:
    one = launch_agent(ours, ours.work / "a")
    (session,) = ours.survey().sessions
    for cwd in (None, "relative", "/x\0y"):
        facts = session.observation.facts._replace(cwd=cwd)
        strange = session._replace(observation=session.observation._replace(facts=facts))
        assert not stop.works_in(strange, "/")
    shutil.rmtree(ours.work / "a")
    assert stop.works_in(session, str((ours.work / "a").resolve()))
    assert session.observation.session_id == one
