"""Waiting for a change or an end, without polling."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.truth.pidfd import Handle
from agentctl.truth.watch import Watch
from tests.fakes.stranger import Stranger

LONG = 20.0


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("more\n")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("new")
    other.replace(path)


@pytest.mark.parametrize(
    "change", [append, replace, Path.unlink, lambda p: p.with_name("born").touch()],
    ids=["append", "replace", "delete", "create"],
)  # fmt: skip
def test_a_change_wakes(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("first\n")
    with Watch([str(tmp_path)], []) as watch:
        assert not watch.wait(0)
        change(path)
        assert watch.wait(LONG)
        assert not watch.wait(0), "one change is told once"


def test_a_change_wakes_one_who_sleeps_already(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    woken = threading.Event()
    with Watch([str(tmp_path)], []) as watch:

        def sleep() -> None:
            if watch.wait(LONG):
                woken.set()

        sleeper = threading.Thread(target=sleep)
        sleeper.start()
        append(path)
        assert woken.wait(LONG)
        sleeper.join()


def test_many_changes_do_not_pile_up(tmp_path: Path) -> None:
    with Watch([str(tmp_path), str(tmp_path)], []) as watch:
        for number in range(500):
            (tmp_path / f"f{number}").touch()
        assert watch.wait(LONG)
        assert not watch.wait(0)


def test_the_end_of_a_process_wakes(tmp_path: Path) -> None:
    with (
        Stranger("watched", {"PATH": "/usr/bin:/bin"}, tmp_path) as stranger,
        Handle(stranger.identity) as handle,
        Watch([str(tmp_path)], [handle]) as watch,
    ):
        assert not watch.wait(0)
        stranger.end()
        assert watch.wait(LONG)
        assert watch.wait(0), "it stays ended"


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Gone):
        Watch([str(tmp_path), str(tmp_path / "none")], [])
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Watch([str(tmp_path)], []):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before
