"""The demo agent's adapter keeps the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import AdapterContract
from agentctl.truth.survey import HistoryQuery
from tests.fakes.demo import DemoStage
from tests.namespaces import pid_namespace


class TestDemo(AdapterContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[DemoStage]:
        stage = DemoStage(tmp_path)
        yield stage
        stage.close()


class ContainedStage(DemoStage):
    """The agent has a pid namespace and a home of its own, as in a container."""

    def program(self, prompt: str, resume: str | None) -> list[str]:
        inside = 'mount -t tmpfs none "$HOME" && exec "$0" "$@"'
        return [*pid_namespace(), "sh", "-c", inside, *super().program(prompt, resume)]


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[ContainedStage]:
    stage = ContainedStage(tmp_path)
    yield stage
    stage.close()


def test_an_agent_in_a_container_is_seen_through_its_own_root(contained: ContainedStage) -> None:
    puppet = contained.start(prompt="paint the shed")
    puppet.do("work")
    assert not (contained.home / ".demo-agent").exists()  # its files are not in our home
    (row,) = contained.survey().sessions
    assert (row.observation.session_id, row.verdict.status) == (puppet.session_id, "running")
    assert row.observation.facts.prompt == "paint the shed"
    assert (row.observation.transcript or "").startswith("/proc/")
    puppet.do("rest")
    (row,) = contained.survey(HistoryQuery()).sessions
    assert row.verdict.status == "idle"
