"""What needs a real agent runs in its room alone: `make test-real`. `make test` runs unit/, and says so.

Outside a room a real agent could see, and be seen by, everything on the machine: that is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.rehearsal.sandbox import IN_SANDBOX
from tests.real.desk import Desk, Quiet
from tests.real.lab import Lab
from tests.real.pins import CHOSEN, agents, chosen

HERE = Path(__file__).parent
OUTSIDE = (
    HERE / "unit",
    HERE / "test_versions.py",
)  # test_versions.py is skipped there, with the reason

if os.environ.get(CHOSEN) and IN_SANDBOX not in os.environ:
    raise pytest.UsageError(f"{CHOSEN} is set outside a room: real agents run by `make test-real` alone")
if os.environ.get(CHOSEN, "") not in ("", *agents()):
    raise pytest.UsageError(
        f"{CHOSEN}={os.environ[CHOSEN]} is no agent; there are {', '.join(agents())}"
    )


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """In a room, the agent's tests; elsewhere, the lab's own."""
    if os.environ.get(CHOSEN):
        return True if collection_path == HERE / "unit" else None
    if collection_path == HERE or any(
        collection_path == place or place in collection_path.parents for place in OUTSIDE
    ):
        return None
    return True


@pytest.fixture(scope="session")
def quiet_lab() -> Iterator[Lab]:
    """One for all tests that only need an agent."""
    pin = chosen()
    assert pin is not None
    lab = Lab(pin, Path("/tmp/desk"), Quiet())
    yield lab
    lab.close()


@pytest.fixture
def desk(quiet_lab: Lab) -> Iterator[Desk]:
    desk = Desk(quiet_lab)
    yield desk
    desk.clear()
