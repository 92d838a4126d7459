"""Sessions are asked for in this very process."""

import pytest

from tests.ending import play_on
from tests.fakes.demo import DemoStage


@pytest.fixture
def stage(stage: DemoStage, monkeypatch: pytest.MonkeyPatch) -> DemoStage:
    """Ask in this process, with the stage's environment and nothing else."""
    play_on(stage, monkeypatch)
    return stage
