"""Woken by the files it was told of, by a call, and by nothing else."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.daemon.wake import Wake
from tests.waiting import DEADLINE


@pytest.fixture
def wake(tmp_path: Path) -> Iterator[Wake]:
    made = Wake((str(tmp_path / "a"), str(tmp_path / "later" / "b")))
    yield made
    made.close()


def waits(wake: Wake) -> threading.Thread:
    thread = threading.Thread(target=wake.wait, args=(DEADLINE * 2,))
    thread.start()
    return thread


def test_a_call_before_the_wait_is_heard(wake: Wake) -> None:
    wake.call()
    wake.call()
    thread = waits(wake)
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_a_file_that_changes_wakes_and_another_does_not(wake: Wake, tmp_path: Path) -> None:
    thread = waits(wake)
    (tmp_path / "other").write_text("x")
    thread.join(0.2)
    assert thread.is_alive()
    (tmp_path / "a").write_text("x")
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_a_directory_that_comes_later(wake: Wake, tmp_path: Path) -> None:
    thread = waits(wake)
    (tmp_path / "later").mkdir()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    thread = waits(wake)
    wake.call()  # it looks anew at where the file is
    thread.join(DEADLINE)
    thread = waits(wake)
    (tmp_path / "later" / "b").write_text("x")
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_a_time_that_is_over(wake: Wake) -> None:
    wake.wait(0.01)
    wake.wait(-1.0)
