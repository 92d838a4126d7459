"""What is due is fired once, by one of all processes that look, and the results are recorded."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.errors import SourceError, Temporary
from agentctl.fuses import fire
from agentctl.fuses import run as fuse_command
from agentctl.state import fuse_firing, fuses, journal, launch_writes
from agentctl.state.fuses import Action, Fuse
from agentctl.system import proc
from agentctl.truth.model import Launch
from tests.running import SOURCES
from tests.state.events import read_event_types
from tests.waiting import until

ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def set_fuse(state: str, *actions: Action, seconds: float = 0.0) -> Fuse:
    work = Path(state).parent / "work"
    work.mkdir(exist_ok=True)
    return fuses.set_fuse(
        paths.database_file(state), actions, seconds, directory=str(work), cwd=str(work)
    )


def fire_due(state: str) -> list[Fuse]:
    """Fire what is due, and return the fuses that were ours to fire, as they are now."""
    results = [fire.fire_fuse(state, each.id) for each in fuses.list_due(paths.database_file(state))]
    return [each for each in results if each is not None]


def read_events(state: str) -> list[str]:
    return read_event_types(paths.database_file(state))


def test_nothing_is_due(state: str) -> None:
    assert fire_due(state) == []
    set_fuse(state, Action("emit", "x"), seconds=60)
    assert fire_due(state) == []
    assert read_events(state) == ["fuse.set"]


def test_all_due_fuses_do_all_their_actions(state: str) -> None:
    set_fuse(
        state, Action("run", "echo hello"), Action("emit", "late"), Action("webhook", "https://e.org/")
    )
    set_fuse(state, Action("run", "exit 3"))
    first, second = fire_due(state)
    assert (first.state, second.state) == ("fired", "failed")
    assert read_events(state) == ["fuse.set", "fuse.set", "user.late", "fuse.fired", "fuse.failed"]
    results = journal.read_after(paths.database_file(state), 0)[3].body["data"]["results"]
    assert [(each["do"], each["ok"]) for each in results] == [
        ("run", True),
        ("emit", True),
        ("webhook", True),
    ]
    assert Path(results[0]["output"]).read_text() == "hello\n"
    assert fire_due(state) == []


def test_an_action_that_fails_does_not_hinder_the_next(state: str) -> None:
    fuse = set_fuse(state, Action("run", "true"), Action("emit", "after"))
    Path(fuse.cwd or "").rmdir()
    (result,) = fire_due(state)
    assert result.state == "failed"
    assert "the directory is gone" in str(result.results[0])
    assert read_events(state)[1:] == ["user.after", "fuse.failed"]


def test_a_temporary_error_is_no_failure_and_is_retried(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, an agent whose time is over is ended as soon as that is possible."""

    def full(*_: object) -> dict[str, object]:
        raise Temporary("state.db", "no space left on its disk")

    run = fire._ACTIONS["run"]
    monkeypatch.setitem(fire._ACTIONS, "run", full)
    set_fuse(state, Action("run", "echo hello"))
    with pytest.raises(Temporary):
        fire_due(state)
    assert read_events(state) == ["fuse.set"]
    monkeypatch.setitem(fire._ACTIONS, "run", run)
    (result,) = (
        fire.fire_fuse(state, each.id) for each in fuses.list_active(paths.database_file(state))
    )
    assert result is not None
    assert result.state == "fired"


def test_an_unexpected_error_is_recorded(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> dict[str, object]:
        raise KeyError("nothing")

    monkeypatch.setitem(fire._ACTIONS, "run", broken)
    set_fuse(state, Action("run", "true"))
    (result,) = fire_due(state)
    assert result.results[0] is not None
    assert (result.state, result.results[0]["error"]) == ("failed", "'nothing'")


FIRE = (
    "import sys; from agentctl import paths;"
    " from agentctl.fuses import fire; from agentctl.state import fuses;"
    " state = sys.argv[1]; due = fuses.list_due(paths.database_file(state));"
    " print(sum(fire.fire_fuse(state, each.id) is not None for each in due))"
)


def test_ten_processes_fire_an_overdue_fuse_once(state: str) -> None:
    set_fuse(state, Action("run", "echo once >> ran"))
    words = [sys.executable, "-S", "-c", FIRE, state]
    environ = {"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    racers = [subprocess.Popen(words, env=environ, stdout=subprocess.PIPE) for _ in range(10)]
    fired = sorted(int(racer.communicate(timeout=60)[0]) for racer in racers)
    assert fired == [0] * 9 + [1]
    assert (Path(state).parent / "work" / "ran").read_text() == "once\n"
    assert read_events(state) == ["fuse.set", "fuse.fired"]


def test_two_threads_fire_it_once(state: str) -> None:
    fuse = set_fuse(state, Action("run", "touch begun; while ! test -e go; do sleep 0.02; done"))
    thread = threading.Thread(target=fire.fire_fuse, args=(state, fuse.id))
    thread.start()
    work = Path(state).parent / "work"
    until((work / "begun").exists, "it fires")
    assert fire._firing == {fuse.id}
    assert fire.fire_fuse(state, fuse.id) is None
    (work / "go").touch()
    thread.join()
    assert fire._firing == set()
    assert read_events(state) == ["fuse.set", "fuse.fired"]


def test_after_a_kill_the_next_process_does_the_rest_and_no_more(state: str) -> None:
    """The first command is confirmed; the second still runs when its starter is killed."""
    work = Path(state).parent / "work"
    second = "echo two >> ran; touch begun; while ! test -e go; do sleep 0.02; done; exit 5"
    fuse = set_fuse(
        state, Action("run", "echo one >> ran"), Action("run", second), Action("emit", "end")
    )
    words = [sys.executable, "-S", "-c", FIRE, state]
    child = subprocess.Popen(words, env={"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]})
    try:
        until((work / "begun").exists, "the second runs")
    finally:
        child.kill()
        child.wait()
    assert [each.id for each in fuses.list_due(paths.database_file(state))] == [fuse.id]
    (work / "go").touch()
    (result,) = fire_due(state)
    assert [each and each["ok"] for each in result.results] == [True, False, True]
    assert result.results[1] is not None
    assert result.results[1]["code"] == 5
    assert (work / "ran").read_text() == "one\ntwo\n"
    assert read_events(state) == ["fuse.set", "user.end", "fuse.failed"]


def test_the_timeout_of_an_agent_that_is_gone_is_cancelled(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCTL_CONFINE", f"TEST={state}")  # sees no process
    monkeypatch.setenv("HOME", state)
    notes = paths.database_file(state)
    launch_writes.begin_launch(notes, Launch("l1", DEAD), timeout=1e-6)
    assert fire_due(state) == []
    assert fuses.list_due(notes) == []
    assert [e for e in read_events(state) if e.startswith("fuse")] == ["fuse.set", "fuse.cancelled"]


def test_a_command_is_not_run_again_when_its_result_could_not_be_recorded(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuse = set_fuse(state, Action("run", "echo once >> ran"))

    def full(*_: object) -> None:
        raise SourceError("state.db", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(fuse_firing, "confirm_action", full)
        with pytest.raises(SourceError):
            fire.fire_fuse(state, fuse.id)
    assert fire.fire_fuse(state, fuse.id) is not None
    assert (Path(state).parent / "work" / "ran").read_text() == "once\n"


def test_old_settled_fuses_are_removed_with_their_output(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fire.remove_old_fuses(state)  # there was no fuse yet
    set_fuse(state, Action("run", "true"))
    (result,) = fire_due(state)
    folder = Path(fuse_command.output_folder(state)) / result.id
    (folder.parent / "other").mkdir()
    fire.remove_old_fuses(state)
    assert folder.exists()
    monkeypatch.setattr(fuses, "KEEP", -1.0)
    fire.remove_old_fuses(state)
    assert fuses.list_fuses(paths.database_file(state)) == []
    assert not folder.exists()
    assert (folder.parent / "other").exists()


@pytest.mark.slow
def test_after_kills_at_any_moment_each_fuse_is_fired_once(state: str) -> None:
    """At random moments of the firing process, until all are settled."""
    number, chance = 6, random.Random(3)
    all_fuses = [
        set_fuse(
            state, Action("run", "sleep 0.4; echo $AGENTCTL_FUSE_ID >> ran"), Action("emit", "done")
        )
        for _ in range(number)
    ]
    words = [sys.executable, "-S", "-c", FIRE, state]
    environ = {"PYTHONPATH": SOURCES, "PATH": os.environ["PATH"]}
    kills = 0
    while fuses.list_due(paths.database_file(state)):
        child = subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL)
        try:
            child.wait(chance.uniform(0.1, 0.6))
        except subprocess.TimeoutExpired:
            child.kill()  # our own child, not reaped yet: its pid is its own
            child.wait()
            kills += 1
    assert kills > 0  # all together take longer than the first may live
    ran = (Path(state).parent / "work" / "ran").read_text().split()
    assert sorted(ran) == sorted(each.id for each in all_fuses)
    assert sorted(read_events(state)) == sorted(["fuse.set", "user.done", "fuse.fired"] * number)
