"""Every play of this run's agent: agentctl must come to say what the driver knows, in `list` and, by its
daemon, in the journal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.asserting import Asserting
from tests.real.lab import Lab, read_output
from tests.real.listening import Listening
from tests.real.pins import chosen
from tests.real.scenarios import repertoire

PIN = chosen()
PLAYED = repertoire(PIN.name) if PIN else None
_numbers = itertools.count(1)


@pytest.fixture
def lab() -> Iterator[Lab]:
    assert PIN is not None
    asserting = Asserting()
    # A short path: a Unix socket's may have 107 bytes, and agents put theirs deep below home.
    lab = Lab(PIN, Path(f"/tmp/lab{next(_numbers)}"), asserting)
    asserting.rows = lab.rows
    lab.starts_daemon()
    lab.watcher = Listening(asserting, lab.journal, lambda: lab.daemon_runs)
    yield lab
    lab.close()
    print(read_output(lab.root))  # pytest shows it if the play failed


@pytest.mark.parametrize("title", PLAYED.plays if PLAYED else [])
def test_agentctl_agrees_with_the_driver(lab: Lab, title: str) -> None:
    assert PLAYED is not None
    PLAYED.plays[title](lab)
    assert isinstance(lab.watcher, Listening)
    lab.watcher.check_journal()
