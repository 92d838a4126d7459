"""Live sessions of the demo agent, in a home of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.demo import DemoStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()
