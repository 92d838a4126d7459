"""`agentctl history`: events in order, with their evidence, of one session or of all."""

from pathlib import Path

import pytest

from agentctl import paths
from agentctl.state import journal
from agentctl.truth.event import Event
from tests.daemon.serving import home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of

EVIDENCE = {"claim": "idle", "detail": "completed", "authority": "journal", "address": "/t@1"}


@pytest.fixture
def stage(stage: DemoStage) -> DemoStage:
    """The stage, with four events in our journal."""
    body = {"session": {"reason": "its turn is over"}, "evidence": [EVIDENCE]}
    journal.append_events(
        paths.database_file(home_of(stage)),
        [
            Event("launch.started", 1.0, adapter="demo", body={"data": {"launch": "1a"}}),
            Event("launch.identified", 2.0, None, "demo", "4f2a-1", body={"data": {"launch": "1a"}}),
            Event("session.idle", 3.0, None, "demo", "4f2a-1", None, body),
            Event("lock.acquired", 4.0, subject=str(stage.root)),
        ],
    )
    return stage


def test_the_last_events_of_all_sessions(stage: DemoStage) -> None:
    assert [line.split()[2] for line in agentctl_of(stage, "history").lines] == [
        "launch.started",
        "launch.identified",
        "session.idle",
        "lock.acquired",
    ]
    assert len(agentctl_of(stage, "history", "-n", "2").lines) == 2
    assert len(agentctl_of(stage, "history", "--since", "3").lines) == 1
    assert len(agentctl_of(stage, "history", "--type", "launch").lines) == 2


def test_events_of_one_session_with_evidence_and_its_launch(stage: DemoStage) -> None:
    lines = agentctl_of(stage, "history", "4f").lines
    assert [line.split()[2] for line in lines if line[0] == "1"] == [
        "launch.started",
        "launch.identified",
        "session.idle",
    ]
    assert lines[-1].strip() == "journal: idle: completed, /t@1"


def test_events_of_a_directory(stage: DemoStage) -> None:
    [line] = agentctl_of(stage, "history", f"{stage.root}/.").lines
    assert line.split()[2] == "lock.acquired"


def test_as_json(stage: DemoStage) -> None:
    answer = agentctl_of(stage, "history", "4f2a", "--json").json()
    assert [event["seq"] for event in answer["events"]] == [1, 2, 3]
    assert answer["version"] == 1


def test_without_events_the_answer_says_why(stage: DemoStage) -> None:
    ran = agentctl_of(stage, "history", "nosuch")
    assert (ran.code, ran.out) == (3, "")
    assert len(ran.err.splitlines()) == 2
    empty = agentctl_of(stage, "history", AGENTCTL_HOME=f"{stage.root}/other")
    assert empty.code == 0
    assert empty.out == "no event is recorded; the daemon records them: agentctl daemon start\n"
    assert agentctl_of(stage, "history", "--group", "g").out == "no recorded event matches\n"
    assert not Path(f"{stage.root}/other").exists()
