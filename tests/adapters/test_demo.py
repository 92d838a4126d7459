"""The demo agent's adapter keeps the contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import AdapterContract
from tests.fakes.demo import DemoStage


class TestDemo(AdapterContract):
    @pytest.fixture
    def stage(self, tmp_path: Path) -> Iterator[DemoStage]:
        stage = DemoStage(tmp_path)
        yield stage
        stage.close()
