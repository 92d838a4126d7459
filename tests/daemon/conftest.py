"""A home for daemons: whatever is started in it ends with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.demo import DemoStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()
