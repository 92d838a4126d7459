"""Each law holds for every agent that has a stage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.testing import Stage
from tests.fakes.stages import stages


@pytest.fixture(params=stages(), ids=lambda stage: stage.adapter)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made: Stage = request.param(tmp_path)
    yield made
    made.close()
