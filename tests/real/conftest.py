"""What needs a real agent runs in its room alone: `make test-real`. `make test` runs unit/, and says so.

Outside a room a real agent could see, and be seen by, everything on the machine: that is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.rehearsal.sandbox import ROOM
from tests.real.desk import Desk, Quiet
from tests.real.lab import Lab
from tests.real.pins import CHOSEN, agents, chosen

HERE = Path(__file__).parent
OUTSIDE = (HERE / "unit", HERE / "test_versions.py")  # the latter is skipped there, with the reason

if os.environ.get(CHOSEN) and ROOM not in os.environ:
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
    """One for all tests that only want an agent to be there."""
    pin = chosen()
    assert pin is not None
    made = Lab(pin, Path("/tmp/desk"), Quiet())
    yield made
    made.close()


@pytest.fixture
def desk(quiet_lab: Lab) -> Iterator[Desk]:
    made = Desk(quiet_lab)
    yield made
    made.clear()
