"""What is due is fired, once, by one of all who look; and what came of it is told."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.errors import Passing, SourceError
from agentctl.fuses import fire
from agentctl.fuses import run as fuse_command
from agentctl.state import fuse_firing, fuses, journal, launch_writes
from agentctl.state.fuse import Action, Fuse
from agentctl.system import proc
from agentctl.truth.model import Launch
from tests.running import SOURCES
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def lit(state: str, *actions: Action, seconds: float = 0.0) -> Fuse:
    work = Path(state).parent / "work"
    work.mkdir(exist_ok=True)
    return fuses.light(paths.notes_file(state), actions, seconds, directory=str(work), cwd=str(work))


def fire_due(state: str) -> list[Fuse]:
    """Those that were ours to fire, one after the other, as they are now."""
    found = [fire.fire(state, each.id) for each in fuses.due(paths.notes_file(state))]
    return [each for each in found if each is not None]


def told(state: str) -> list[str]:
    return [event.type for event in journal.after(paths.notes_file(state), 0)]


def test_nothing_is_due(state: str) -> None:
    assert fire_due(state) == []
    lit(state, Action("emit", "x"), seconds=60)
    assert fire_due(state) == []
    assert told(state) == ["fuse.set"]


def test_all_that_is_due_and_all_that_it_is_to_do(state: str) -> None:
    lit(state, Action("run", "echo hello"), Action("emit", "late"), Action("webhook", "https://e.org/"))
    lit(state, Action("run", "exit 3"))
    first, second = fire_due(state)
    assert (first.state, second.state) == ("fired", "failed")
    assert told(state) == ["fuse.set", "fuse.set", "user.late", "fuse.fired", "fuse.failed"]
    results = journal.after(paths.notes_file(state), 0)[3].body["data"]["results"]
    assert [(each["do"], each["ok"]) for each in results] == [
        ("run", True),
        ("emit", True),
        ("webhook", True),
    ]
    assert Path(results[0]["output"]).read_text() == "hello\n"
    assert fire_due(state) == []


def test_one_that_goes_wrong_keeps_no_other_from_being_done(state: str) -> None:
    gone = lit(state, Action("run", "true"), Action("emit", "after"))
    Path(gone.cwd or "").rmdir()
    (done,) = fire_due(state)
    assert done.state == "failed"
    assert "the directory is gone" in str(done.results[0])
    assert told(state)[1:] == ["user.after", "fuse.failed"]


def test_what_passes_is_waited_for_and_no_failure(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: an agent whose time is over is to be ended all the same, when that can be."""

    def full(*_: object) -> dict[str, object]:
        raise Passing("state.db", "no space left on its disk")

    run = fire._DEEDS["run"]
    monkeypatch.setitem(fire._DEEDS, "run", full)
    lit(state, Action("run", "echo hello"))
    with pytest.raises(Passing):
        fire_due(state)
    assert told(state) == ["fuse.set"]
    monkeypatch.setitem(fire._DEEDS, "run", run)
    (done,) = (fire.fire(state, each.id) for each in fuses.lit(paths.notes_file(state)))
    assert done is not None
    assert done.state == "fired"


def test_what_nobody_foresaw_is_told_too(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, object]:
        raise KeyError("nothing")

    monkeypatch.setitem(fire._DEEDS, "run", broken)
    lit(state, Action("run", "true"))
    (done,) = fire_due(state)
    assert done.results[0] is not None
    assert (done.state, done.results[0]["error"]) == ("failed", "'nothing'")


FIRE = (
    "import sys; from agentctl import paths;"
    " from agentctl.fuses import fire; from agentctl.state import fuses;"
    " state = sys.argv[1]; due = fuses.due(paths.notes_file(state));"
    " print(sum(fire.fire(state, each.id) is not None for each in due))"
)


def test_ten_who_start_at_once_fire_an_overdue_one_once(state: str) -> None:
    lit(state, Action("run", "echo once >> ran"))
    words = [sys.executable, "-S", "-c", FIRE, state]
    environ = {"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    racers = [subprocess.Popen(words, env=environ, stdout=subprocess.PIPE) for _ in range(10)]
    fired = sorted(int(racer.communicate(timeout=60)[0]) for racer in racers)
    assert fired == [0] * 9 + [1]
    assert (Path(state).parent / "work" / "ran").read_text() == "once\n"
    assert told(state) == ["fuse.set", "fuse.fired"]


def test_two_threads_fire_it_once(state: str) -> None:
    made = lit(state, Action("run", "touch begun; while ! test -e go; do sleep 0.02; done"))
    thread = threading.Thread(target=fire.fire, args=(state, made.id))
    thread.start()
    work = Path(state).parent / "work"
    until((work / "begun").exists, "it fires")
    assert fire.at_work() == {made.id}
    assert fire.fire(state, made.id) is None
    (work / "go").touch()
    thread.join()
    assert fire.at_work() == frozenset()
    assert told(state) == ["fuse.set", "fuse.fired"]


def test_killed_while_it_fires_the_next_one_does_the_rest_and_no_more(state: str) -> None:
    """The first command is confirmed; the second still runs when its starter is killed."""
    work = Path(state).parent / "work"
    second = "echo two >> ran; touch begun; while ! test -e go; do sleep 0.02; done; exit 5"
    made = lit(state, Action("run", "echo one >> ran"), Action("run", second), Action("emit", "end"))
    words = [sys.executable, "-S", "-c", FIRE, state]
    child = subprocess.Popen(words, env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]})
    try:
        until((work / "begun").exists, "the second runs")
    finally:
        child.kill()
        child.wait()
    assert [each.id for each in fuses.due(paths.notes_file(state))] == [made.id]
    (work / "go").touch()
    (done,) = fire_due(state)
    assert [each and each["ok"] for each in done.results] == [True, False, True]
    assert done.results[1] is not None
    assert done.results[1]["code"] == 5
    assert (work / "ran").read_text() == "one\ntwo\n"
    assert told(state) == ["fuse.set", "user.end", "fuse.failed"]


def test_the_timeout_of_an_agent_that_is_gone_just_ends(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_CONFINE", f"TEST={state}")  # sees nobody
    monkeypatch.setenv("HOME", state)
    notes = paths.notes_file(state)
    launch_writes.begin(notes, Launch("l1", DEAD), timeout=1e-6)
    assert fire_due(state) == []
    assert fuses.due(notes) == []
    assert [e for e in told(state) if e.startswith("fuse")] == ["fuse.set", "fuse.cancelled"]


def test_what_could_not_be_written_down_is_done_the_next_time(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lit(state, Action("run", "echo once >> ran"))

    def full(*_: object) -> None:
        raise SourceError("state.db", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(fuse_firing, "confirm", full)
        with pytest.raises(SourceError):
            fire.fire(state, made.id)
    assert fire.fire(state, made.id) is not None
    assert (Path(state).parent / "work" / "ran").read_text() == "once\n"


def test_what_was_settled_long_ago_is_forgotten_with_what_it_said(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fire.tidy(state)  # nothing was ever lit
    lit(state, Action("run", "true"))
    (done,) = fire_due(state)
    kept = Path(fuse_command.folder(state)) / done.id
    (kept.parent / "somebodys").mkdir()
    fire.tidy(state)
    assert kept.exists()
    monkeypatch.setattr(fuses, "KEEP", -1.0)
    fire.tidy(state)
    assert fuses.recorded(paths.notes_file(state)) == []
    assert not kept.exists()
    assert (kept.parent / "somebodys").exists()


def test_killed_at_any_moment_each_is_fired_once_and_each_command_run_once(state: str) -> None:
    """Random moments of the life of whoever fires them, until all are settled."""
    number, chance = 6, random.Random(3)
    made = [
        lit(state, Action("run", "sleep 0.4; echo $AGENTCTL_FUSE_ID >> ran"), Action("emit", "done"))
        for _ in range(number)
    ]
    words = [sys.executable, "-S", "-c", FIRE, state]
    environ = {"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]}
    kills = 0
    while fuses.due(paths.notes_file(state)):
        child = subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL)
        try:
            child.wait(chance.uniform(0.1, 0.6))
        except subprocess.TimeoutExpired:
            child.kill()  # our own child, not reaped yet: its pid is its own
            child.wait()
            kills += 1
    assert kills > 0  # all together take longer than the first may live
    ran = (Path(state).parent / "work" / "ran").read_text().split()
    assert sorted(ran) == sorted(each.id for each in made)
    assert sorted(told(state)) == sorted(["fuse.set", "user.done", "fuse.fired"] * number)
