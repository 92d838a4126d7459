"""Live sessions of the demo agent, in a home of their own."""

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
