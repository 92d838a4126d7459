"""Tests that `test_run.py` runs through the runner; not part of the suite."""

import os
import pwd
from pathlib import Path

import pytest


def test_an_ordinary_user() -> None:
    assert os.geteuid() != 0
    assert pwd.getpwuid(os.geteuid()).pw_dir == os.environ["HOME"]
    assert os.listdir(os.environ["HOME"]) == []
    Path(os.environ["TMPDIR"], "mine").touch()


def test_the_checkout_can_be_read_and_not_written() -> None:
    assert Path(__file__).read_text()
    assert not os.access(Path(__file__).parents[2], os.W_OK)


def test_what_cannot_run() -> None:
    pytest.skip("needs the moon")
