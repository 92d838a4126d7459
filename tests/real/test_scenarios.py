"""Every play of the agent this run is about: agentctl must come to say what the driver knows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.asserting import Asserting
from tests.real.lab import Lab
from tests.real.pins import chosen
from tests.real.scenarios import repertoire

PIN = chosen()
PLAYED = repertoire(PIN.name) if PIN else None
_numbers = itertools.count(1)


@pytest.fixture
def lab() -> Iterator[Lab]:
    assert PIN is not None
    watcher = Asserting()
    # A short path: a Unix socket's may have 107 bytes, and agents put theirs deep below home.
    made = Lab(PIN, Path(f"/tmp/lab{next(_numbers)}"), watcher)
    watcher.rows = made.rows
    yield made
    made.close()


@pytest.mark.parametrize("title", PLAYED.plays if PLAYED else [])
def test_it_is_told_as_it_is(lab: Lab, title: str) -> None:
    assert PLAYED is not None
    PLAYED.plays[title](lab)
