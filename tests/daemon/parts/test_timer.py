"""The timer fires a fuse when it is due, and no fuse that hangs delays another."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.daemon.parts import timer
from agentctl.daemon.parts.timer import Timer
from agentctl.daemon.parts.worker import FileWaiter
from agentctl.errors import SourceError
from agentctl.fuses import fire, run
from agentctl.state import fuses, journal
from agentctl.state.fuses import Action, Fuse
from tests.running import SOURCES
from tests.waiting import until

EMIT = Action("emit", "x")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "state").mkdir()
    (tmp_path / "work").mkdir()
    yield str(tmp_path / "state")
    (tmp_path / "work" / "go").touch()  # ends the commands that hang


@pytest.fixture
def started_timer(home: str) -> Iterator[Timer]:
    timer_part = Timer(home)
    timer_part.start()
    yield timer_part
    timer_part.stop()


def set_fuse(home: str, *actions: Action, seconds: float = 0.0) -> Fuse:
    work = str(Path(home).parent / "work")
    return fuses.set_fuse(paths.database_file(home), actions, seconds, directory=work, cwd=work)


def read_event_types(home: str) -> list[str]:
    return [event.type for event in journal.read_after(paths.database_file(home), 0)]


def test_a_fuse_overdue_at_the_start_fires_once(home: str) -> None:
    set_fuse(home, EMIT)
    set_fuse(home, EMIT, seconds=600)
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: "fuse.fired" in read_event_types(home), "it fires")
    timer_part.stop()
    assert read_event_types(home).count("fuse.fired") == 1
    again = Timer(home)
    again.start()
    until(lambda: again.status()["burning"] == 1, "it has looked")
    again.stop()
    assert read_event_types(home).count("fuse.fired") == 1


def test_a_fuse_set_while_the_timer_waits_fires(home: str, started_timer: Timer) -> None:
    until(lambda: started_timer.status()["burning"] == 0, "it has looked")
    set_fuse(home, EMIT, seconds=0.3)
    until(lambda: "fuse.fired" in read_event_types(home), "it fires")
    until(lambda: started_timer.status()["next_due_at"] is None, "none is left")


def test_an_extended_or_cancelled_fuse_does_not_fire(home: str, started_timer: Timer) -> None:
    first, second = set_fuse(home, EMIT, seconds=0.5), set_fuse(home, EMIT, seconds=0.5)
    fuses.extend_fuse(paths.database_file(home), first.id, 600, from_now=True)
    fuses.cancel_fuse(paths.database_file(home), second.id, "")
    last = set_fuse(home, EMIT, seconds=0.8)
    until(lambda: "fuse.fired" in read_event_types(home), "the last one fires")
    until(lambda: started_timer.status()["burning"] == 1, "the first is still set")
    states = {each.id: each.state for each in fuses.list_fuses(paths.database_file(home))}
    assert states == {first.id: "burning", second.id: "cancelled", last.id: "fired"}


def test_a_fuse_that_comes_due_during_the_look_fires_at_once(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = fuses.list_due, []

    def list_none_at_first(notes: str) -> list[Fuse]:
        looks.append(1)
        return look(notes) if len(looks) > 1 else []

    monkeypatch.setattr(fuses, "list_due", list_none_at_first)
    set_fuse(home, EMIT, seconds=0.0)
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: "fuse.fired" in read_event_types(home), "it fires")
    timer_part.stop()


def test_a_fuse_that_hangs_delays_no_other(home: str, started_timer: Timer) -> None:
    set_fuse(home, Action("run", "touch begun; while ! test -e go; do sleep 0.02; done"))
    until((Path(home).parent / "work" / "begun").exists, "it hangs")
    set_fuse(home, EMIT)
    until(lambda: "fuse.fired" in read_event_types(home), "the other fires")
    assert started_timer.status()["firing"] >= 1
    (Path(home).parent / "work" / "go").touch()
    until(lambda: read_event_types(home).count("fuse.fired") == 2, "it is over")


def test_more_fuses_than_may_fire_at_once_all_fire(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "AT_ONCE", 2)
    for _ in range(7):
        set_fuse(home, EMIT)
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: read_event_types(home).count("fuse.fired") == 7, "all fire")
    timer_part.stop()


def test_a_command_that_outlives_its_timer_is_not_run_again(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of a killed process is waited for."""
    work = Path(home).parent / "work"
    set_fuse(
        home, Action("run", "echo once >> ran; touch begun; while ! test -e go; do sleep 0.02; done")
    )
    program = (
        "import sys, time; from agentctl.daemon.parts.timer import Timer; Timer(sys.argv[1]).start();"
        " time.sleep(600)"
    )
    words = [sys.executable, "-c", program, home]
    first = subprocess.Popen(words, env={"PYTHONPATH": SOURCES, "PATH": "/usr/bin:/bin"})
    try:
        until((work / "begun").exists, "it runs")
    finally:
        first.kill()
        first.wait()
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: timer_part.status()["firing"] == 1, "it waits for it")
    (work / "go").touch()
    until(lambda: "fuse.fired" in read_event_types(home), "it is over")
    timer_part.stop()
    assert (work / "ran").read_text() == "once\n"


def test_a_fuse_that_cannot_fire_is_tried_again(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    true_fire = fire.fire_fuse

    def fire_after_two_failures(state: str, fuse_id: str) -> None:
        tried.append(fuse_id)
        if len(tried) < 3:
            raise SourceError("state.db", "the disk is full")
        true_fire(state, fuse_id)

    monkeypatch.setattr(fire, "fire_fuse", fire_after_two_failures)
    monkeypatch.setattr(timer, "REST", 0.05)
    set_fuse(home, EMIT)
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: "fuse.fired" in read_event_types(home), "it fires in the end")
    timer_part.stop()
    assert len(tried) == 3


def test_a_database_that_cannot_be_read_is_in_the_status(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database" * 100)
    timer_part = Timer(str(tmp_path))
    timer_part.start()
    until(lambda: timer_part.status().get("state") == "failing", "the status shows it")
    timer_part.stop()


def test_a_wakeup_without_a_change_causes_no_look(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look creates and removes the database's log: the timer would wake itself for ever."""
    looks: list[float] = []
    wakes: list[float] = []
    look, wait = fuses.list_due, FileWaiter.wait

    def count_look(path: str) -> list[Fuse]:
        looks.append(time.monotonic())
        return look(path)

    def count_wait(waiter: FileWaiter, seconds: float) -> None:
        wait(waiter, seconds)
        wakes.append(time.monotonic())

    monkeypatch.setattr(fuses, "list_due", count_look)
    monkeypatch.setattr(FileWaiter, "wait", count_wait)
    set_fuse(home, EMIT, seconds=600)
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: timer_part.status()["burning"] == 1, "it has looked")
    before = len(looks)
    for _ in range(6):
        wakes_before = len(wakes)
        log = Path(f"{paths.database_file(home)}-wal")
        if log.exists():  # an empty one, as a mere reader makes it
            assert log.stat().st_size == 0
            log.unlink()
        else:
            log.touch()
        until(lambda: len(wakes) > wakes_before, "it is woken")  # noqa: B023 - called at once
    timer_part.stop()
    assert len(looks) <= before + 1


def test_old_output_is_deleted_at_the_start(home: str) -> None:
    orphan = Path(run.output_folder(home)) / "0123abcd"
    orphan.mkdir(parents=True)
    timer_part = Timer(home)
    timer_part.start()
    until(lambda: not orphan.exists(), "it is gone")
    timer_part.stop()
