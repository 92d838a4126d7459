"""The clock fires what is due, when it is due, and nothing that hangs holds it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.daemon.parts import timer
from agentctl.daemon.parts.timer import Clock
from agentctl.daemon.wake import Wake
from agentctl.errors import SourceError
from agentctl.fuses import fire, run
from agentctl.state import fuses, journal
from agentctl.state.fuse import Action, Fuse
from tests.running import SOURCES
from tests.waiting import until

EMIT = Action("emit", "x")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "state").mkdir()
    (tmp_path / "work").mkdir()
    yield str(tmp_path / "state")
    (tmp_path / "work" / "go").touch()  # lets go of what hangs


@pytest.fixture
def ticking(home: str) -> Iterator[Clock]:
    made = Clock(home)
    made.start()
    yield made
    made.stop()


def lit(home: str, *actions: Action, seconds: float = 0.0) -> Fuse:
    work = str(Path(home).parent / "work")
    return fuses.light(paths.notes_file(home), actions, seconds, directory=work, cwd=work)


def told(home: str) -> list[str]:
    return [event.type for event in journal.after(paths.notes_file(home), 0)]


def test_what_is_overdue_at_the_start_is_fired_once(home: str) -> None:
    lit(home, EMIT)
    lit(home, EMIT, seconds=600)
    made = Clock(home)
    made.start()
    until(lambda: "fuse.fired" in told(home), "it fires")
    made.stop()
    assert told(home).count("fuse.fired") == 1
    again = Clock(home)
    again.start()
    until(lambda: again.status()["burning"] == 1, "it has looked")
    again.stop()
    assert told(home).count("fuse.fired") == 1


def test_one_that_is_lit_while_it_waits(home: str, ticking: Clock) -> None:
    until(lambda: ticking.status()["burning"] == 0, "it has looked")
    lit(home, EMIT, seconds=0.3)
    until(lambda: "fuse.fired" in told(home), "it fires")
    until(lambda: ticking.status()["next_due_at"] is None, "none is left")


def test_one_that_is_extended_or_cancelled_is_not_fired(home: str, ticking: Clock) -> None:
    first, second = lit(home, EMIT, seconds=0.5), lit(home, EMIT, seconds=0.5)
    fuses.extend(paths.notes_file(home), first.id, 600, anew=True)
    fuses.cancel(paths.notes_file(home), second.id, "")
    last = lit(home, EMIT, seconds=0.8)
    until(lambda: "fuse.fired" in told(home), "the last one fires")
    until(lambda: ticking.status()["burning"] == 1, "the first burns")
    states = {each.id: each.state for each in fuses.recorded(paths.notes_file(home))}
    assert states == {first.id: "burning", second.id: "cancelled", last.id: "fired"}


def test_one_that_comes_due_while_it_is_looked_for_is_not_left_for_later(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = fuses.due, []

    def a_moment_too_early(notes: str) -> list[Fuse]:
        looks.append(1)
        return look(notes) if len(looks) > 1 else []

    monkeypatch.setattr(fuses, "due", a_moment_too_early)
    lit(home, EMIT, seconds=0.0)
    made = Clock(home)
    made.start()
    until(lambda: "fuse.fired" in told(home), "it fires")
    made.stop()


def test_one_that_hangs_holds_no_other(home: str, ticking: Clock) -> None:
    lit(home, Action("run", "touch begun; while ! test -e go; do sleep 0.02; done"))
    until((Path(home).parent / "work" / "begun").exists, "it hangs")
    lit(home, EMIT)
    until(lambda: "fuse.fired" in told(home), "the other fires")
    assert ticking.status()["firing"] >= 1
    (Path(home).parent / "work" / "go").touch()
    until(lambda: told(home).count("fuse.fired") == 2, "it is over")


def test_more_than_fire_at_once_wait_their_turn(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "AT_ONCE", 2)
    for _ in range(7):
        lit(home, EMIT)
    made = Clock(home)
    made.start()
    until(lambda: told(home).count("fuse.fired") == 7, "all fire")
    made.stop()


def test_it_ends_at_once_while_one_hangs_and_the_next_one_goes_on(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another process, as after a kill: the command is waited for and not run again."""
    work = Path(home).parent / "work"
    lit(home, Action("run", "echo once >> ran; touch begun; while ! test -e go; do sleep 0.02; done"))
    program = (
        "import sys, time; from agentctl.daemon.parts.timer import Clock; Clock(sys.argv[1]).start();"
        " time.sleep(600)"
    )
    words = [sys.executable, "-c", program, home]
    first = subprocess.Popen(words, env={"PYTHONPATH": SOURCES, "PATH": "/usr/bin:/bin"})
    try:
        until((work / "begun").exists, "it runs")
    finally:
        first.kill()
        first.wait()
    made = Clock(home)
    made.start()
    until(lambda: made.status()["firing"] == 1, "it waits for it")
    (work / "go").touch()
    until(lambda: "fuse.fired" in told(home), "it is over")
    made.stop()
    assert (work / "ran").read_text() == "once\n"


def test_one_that_cannot_be_fired_is_tried_again(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    true_fire = fire.fire

    def full(state: str, fuse_id: str) -> None:
        tried.append(fuse_id)
        if len(tried) < 3:
            raise SourceError("state.db", "the disk is full")
        true_fire(state, fuse_id)

    monkeypatch.setattr(fire, "fire", full)
    monkeypatch.setattr(timer, "REST", 0.05)
    lit(home, EMIT)
    made = Clock(home)
    made.start()
    until(lambda: "fuse.fired" in told(home), "it fires in the end")
    made.stop()
    assert len(tried) == 3


def test_a_database_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_text("no database" * 100)
    made = Clock(str(tmp_path))
    made.start()
    until(lambda: made.status().get("state") == "failing", "it tells")
    made.stop()


def test_what_wakes_it_and_is_no_change_is_not_looked_at(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own look makes a log and removes it: it would wake itself for ever."""
    looks: list[float] = []
    wakes: list[float] = []
    look, wait = fuses.due, Wake.wait

    def looked(path: str) -> list[Fuse]:
        looks.append(time.monotonic())
        return look(path)

    def waited(wake: Wake, seconds: float) -> None:
        wait(wake, seconds)
        wakes.append(time.monotonic())

    monkeypatch.setattr(fuses, "due", looked)
    monkeypatch.setattr(Wake, "wait", waited)
    lit(home, EMIT, seconds=600)
    made = Clock(home)
    made.start()
    until(lambda: made.status()["burning"] == 1, "it has looked")
    before = len(looks)
    for _ in range(6):
        woken = len(wakes)
        log = Path(f"{paths.notes_file(home)}-wal")
        if log.exists():  # an empty one, as a mere reader makes it
            assert log.stat().st_size == 0
            log.unlink()
        else:
            log.touch()
        until(lambda: len(wakes) > woken, "it is woken")  # noqa: B023 - called at once
    made.stop()
    assert len(looks) <= before + 1


def test_what_was_said_long_ago_goes_at_the_start(home: str) -> None:
    orphan = Path(run.folder(home)) / "0123abcd"
    orphan.mkdir(parents=True)
    made = Clock(home)
    made.start()
    until(lambda: not orphan.exists(), "it is gone")
    made.stop()
