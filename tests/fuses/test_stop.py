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
from agentctl.state.fuse import Action, Fuse
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


def launched(stage: DemoStage, cwd: Path, *words: str) -> str:
    cwd.mkdir(parents=True, exist_ok=True)
    ran = agentctl_of(stage, "launch", "demo", "-p", "work 600", "--cwd", str(cwd), *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def lit(stage: DemoStage, **on: Any) -> Fuse:
    return fuses.light(_notes(stage), (Action("stop"),), 0.0, **on)


def _notes(stage: DemoStage) -> str:
    return paths.notes_file(stage.environ["AGENTCTL_HOME"])


def _stop(stage: DemoStage, fuse: Fuse) -> dict[str, Any]:
    return stop.stop(stage.environ["AGENTCTL_HOME"], fuse, 0)


def live(stage: DemoStage) -> set[str | None]:
    return {session.seen.session_id for session in stage.survey().sessions}


def test_a_directorys_are_those_in_it_and_below(ours: DemoStage) -> None:
    here, below = launched(ours, ours.work / "a"), launched(ours, ours.work / "a/b")
    beside = launched(ours, ours.work / "ab")
    came_of = _stop(ours, lit(ours, directory=str((ours.work / "a").resolve())))
    assert came_of["ok"]
    assert {each["id"] for each in came_of["stopped"]} == {here, below}
    assert all(each["ended"] >= 1 and each["survivors"] == [] for each in came_of["stopped"])
    assert live(ours) == {beside}


def test_a_sessions_is_that_one(ours: DemoStage) -> None:
    one, other = launched(ours, ours.work / "a"), launched(ours, ours.work / "b")
    came_of = _stop(ours, lit(ours, session=("demo", one)))
    assert [each["id"] for each in came_of["stopped"]] == [one]
    assert live(ours) == {other}


def test_nobody_there_is_fine(ours: DemoStage) -> None:
    assert _stop(ours, lit(ours, directory="/no/such")) == {"ok": True, "stopped": []}
    assert _stop(ours, lit(ours, session=("demo", "nosuch"))) == {"ok": True, "stopped": []}


def test_absent_is_not_dead(ours: DemoStage, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Survey([], [Problem("demo", "late", "no answer in 2 s", "")])
    monkeypatch.setattr(query, "everything", lambda: late)
    with pytest.raises(Unreachable, match="cannot tell whether session x lives: late"):
        _stop(ours, lit(ours, session=("demo", "x")))
    assert _stop(ours, lit(ours, session=("pi", "x")))["ok"]


def test_a_timeout_ends_its_agent_and_says_so_once(ours: DemoStage) -> None:
    one = launched(ours, ours.work / "a", "--timeout", "1h")
    (timeout,) = fuses.lit(_notes(ours))
    assert timeout.session_id == one
    assert _stop(ours, timeout)["ok"]
    _stop(ours, timeout)
    until(lambda: live(ours) == set(), "it has ended")
    assert [e.type for e in journal.after(_notes(ours), 0)].count("launch.expired") == 1


def test_what_an_agent_writes_as_its_directory_is_no_path(ours: DemoStage) -> None:
    one = launched(ours, ours.work / "a")
    (session,) = ours.survey().sessions
    for cwd in (None, "relative", "/x\0y"):
        facts = session.seen.facts._replace(cwd=cwd)
        strange = session._replace(seen=session.seen._replace(facts=facts))
        assert not stop.works_in(strange, "/")
    shutil.rmtree(ours.work / "a")
    assert stop.works_in(session, str((ours.work / "a").resolve()))
    assert session.seen.session_id == one
