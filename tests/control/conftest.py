"""A stage of the demo agent, with all that was launched on it ended when the test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control.repository import repo
from tests.fakes.demo import DemoStage

__all__ = ["repo", "stage"]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()
