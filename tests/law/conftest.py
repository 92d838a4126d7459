"""Each law holds for every agent that has a stage, unless a module names one as `STAGE`, or some as
`STAGES`."""

import pytest

from tests.conftest import parametrize_stage
from tests.fakes.stages import stages


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not hasattr(metafunc.module, "STAGE") and not hasattr(metafunc.module, "STAGES"):
        parametrize_stage(metafunc, stages())
