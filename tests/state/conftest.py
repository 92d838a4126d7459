"""Where our database will be, and a directory to work in."""

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "state.db")


@pytest.fixture
def work(tmp_path: Path) -> str:
    (tmp_path / "work").mkdir()
    return str((tmp_path / "work").resolve())
