"""agentctl's eyes on one agent: by its process, by its session's id, until what is true is told."""

from pathlib import Path

import pytest

from agentctl.rehearsal.expect import Telling
from agentctl.rehearsal.follow import Sight, family
from tests.fakes.demo import DemoStage

DEADLINE = 20.0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    made = DemoStage(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    return made


def test_a_living_one_is_found_by_its_process_and_an_ended_one_by_its_id(stage: DemoStage) -> None:
    puppet, other = stage.start(), stage.start()
    puppet.do("work")
    sight = Sight("demo", puppet.pid)
    assert sight.until(Telling("running", ()), DEADLINE).compared.as_expected
    assert sight.session_id == puppet.session_id
    puppet.do("rest")
    puppet.finish()
    seen = sight.until(Telling("stopped", (), outcome="completed"), DEADLINE)
    assert seen.compared.as_expected
    assert seen.session is not None
    assert seen.session.seen.session_id == puppet.session_id
    stage.close()
    assert other.ended


def test_what_does_not_come_is_told_as_it_is(stage: DemoStage) -> None:
    puppet = stage.start()
    puppet.do("work")
    seen = Sight("demo", puppet.pid).until(Telling("idle", ()), 0)
    assert seen.compared.differs == ("status running, not idle",)
    stage.close()


def test_one_that_is_not_there_is_not_another(stage: DemoStage) -> None:
    stage.start()
    assert Sight("demo", session_id="none such").until(Telling("idle", ()), 0).session is None
    stage.close()


def test_a_process_is_of_its_own_family(stage: DemoStage) -> None:
    puppet = stage.start()
    assert family(puppet.pid) == {puppet.pid}
    stage.close()
