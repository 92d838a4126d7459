"""The tracker finds one agent's session by its process or its id, and waits until it is as expected."""

from pathlib import Path

import pytest

from agentctl.rehearsal.signals import Expectation
from agentctl.rehearsal.tracker import Tracker, find_descendants
from tests.fakes.demo import DemoStage

DEADLINE = 20.0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    stage = DemoStage(tmp_path)
    for name, value in stage.environ.items():
        monkeypatch.setenv(name, value)
    return stage


def test_a_living_one_is_found_by_its_process_and_an_ended_one_by_its_id(stage: DemoStage) -> None:
    puppet, other = stage.start(), stage.start()
    puppet.do("work")
    tracker = Tracker("demo", puppet.pid)
    assert tracker.wait_until(Expectation("running", ()), DEADLINE).comparison.is_as_expected
    assert tracker.session_id == puppet.session_id
    puppet.do("rest")
    puppet.finish()
    sighting = tracker.wait_until(Expectation("stopped", (), outcome="completed"), DEADLINE)
    assert sighting.comparison.is_as_expected
    assert sighting.session is not None
    assert sighting.session.observation.session_id == puppet.session_id
    stage.close()
    assert other.has_ended


def test_what_does_not_come_is_reported_as_it_is(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    sighting = Tracker("demo", puppet.pid).wait_until(Expectation("idle", ()), 0)
    assert sighting.comparison.differs == ("status running, not idle",)
    stage.close()


def test_an_unknown_id_has_no_session(stage: DemoStage) -> None:
    stage.start()
    assert Tracker("demo", session_id="none such").wait_until(Expectation("idle", ()), 0).session is None
    stage.close()


def test_a_process_is_among_its_own_descendants(stage: DemoStage) -> None:
    puppet = stage.start()
    assert find_descendants(puppet.pid) == {puppet.pid}
    stage.close()
