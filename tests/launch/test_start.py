"""One launch, under everything that can happen to the launcher."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentctl import paths
from agentctl.state import launches, locks
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.model import Session
from tests.ending import kill
from tests.fakes.demo import DemoStage
from tests.running import Ran, agentctl_of, environ_of
from tests.waiting import until

KILLS = 200
AT_ONCE = 50
CROWD = 20


class Launching(DemoStage):
    """A stage whose agents are launched, and ended by their identity when the test is over."""

    def launch(self, *words: str, cwd: Path | None = None) -> Ran:
        directory = cwd or self.work
        directory.mkdir(parents=True, exist_ok=True)
        return agentctl_of(self, "launch", "demo", "--cwd", str(directory), *words)

    @property
    def notes(self) -> str:
        return paths.database_file(self.environ["AGENTCTL_HOME"])

    def agents(self) -> list[Process]:
        return [p for p in self.processes() if p.comm == "demo-agent"]

    def live(self) -> list[Session]:
        return self.survey().sessions


STAGE = Launching


def test_the_id_is_the_agents_own_and_listed(stage: Launching) -> None:
    ran = stage.launch("-p", "work 600", "--name", "mine")
    assert (ran.code, ran.err) == (0, "")
    (session,) = stage.live()
    assert ran.lines == [session.observation.session_id]
    (note,) = launches.read_launches(stage.notes)
    assert session.observation.owner is not None
    assert note.identity == session.observation.owner.identity
    assert (note.session_id, note.name) == (session.observation.session_id, "mine")


@pytest.mark.slow
def test_fifty_at_once(stage: Launching) -> None:
    def one(number: int) -> Ran:
        return stage.launch("-p", "work 600", "--name", f"n{number}", cwd=stage.work / str(number))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ran = list(pool.map(one, range(AT_ONCE)))
    assert [r.err for r in ran if r.code != 0] == []
    ids = {line for r in ran for line in r.lines}
    assert len(ids) == AT_ONCE
    assert {s.observation.session_id for s in stage.live()} == ids
    notes = launches.read_launches(stage.notes)
    assert {note.session_id for note in notes} == ids
    assert {note.name for note in notes} == {f"n{n}" for n in range(AT_ONCE)}
    assert len(locks.list_held(stage.notes)) == AT_ONCE


def test_of_twenty_into_one_directory_one_starts(stage: Launching) -> None:
    with ThreadPoolExecutor(CROWD) as pool:
        ran = list(pool.map(lambda _: stage.launch("-p", "work 600"), range(CROWD)))
    assert sorted(r.code for r in ran) == [0] + [4] * (CROWD - 1)
    (session,) = stage.live()
    assert [line for r in ran for line in r.lines] == [session.observation.session_id]
    until(lambda: len(stage.agents()) == 1, "the refused have left")
    assert len(launches.read_launches(stage.notes)) == 1
    assert len(list(Path(launches.launch_folder(stage.notes, "x")).parent.iterdir())) == 1


def test_the_directory_of_a_dead_owner_is_free(stage: Launching) -> None:
    stage.launch("-p", "work 600")
    assert stage.launch("-p", "work 600").code == 4
    (agent,) = stage.agents()
    kill(agent.identity)
    assert stage.launch("-p", "work 600").code == 0


@pytest.mark.parametrize("step", ["no-such-step", "exit 3"])
def test_a_start_that_fails_leaves_nothing(stage: Launching, step: str) -> None:
    ran = stage.launch("-p", step)
    assert ran.code == 1
    assert ran.out == ""
    assert "demo ended while it was being launched: exit code" in ran.err
    assert launches.read_launches(stage.notes) == []
    assert locks.list_held(stage.notes) == []
    assert list(Path(launches.launch_folder(stage.notes, "x")).parent.iterdir()) == []
    until(lambda: stage.processes() == [], "shim and agent are gone")


def test_a_late_id_is_waited_for(stage: Launching) -> None:
    ran = stage.launch("-p", "work 600", "--", "--late", "0.5")
    (session,) = stage.live()
    assert ran.lines == [session.observation.session_id]


@pytest.mark.slow
def test_a_launcher_killed_at_any_moment_leaves_no_false_note(stage: Launching) -> None:
    """Random moments of its life, from before it parses its arguments to after it has printed the id."""
    chance = random.Random(7)
    whole = _life(stage)
    for number in range(KILLS):
        directory = stage.work / str(number)
        directory.mkdir(parents=True)
        _launch_and_kill(stage, directory, chance.uniform(0, 1.1 * whole))
        if number % 20 == 19:
            _settle(stage)
            _check_notes_and_processes(stage)
            stage.close()
    _settle(stage)
    _check_notes_and_processes(stage)
    stage.close()
    until(lambda: stage.processes() == [], "everything is gone")
    assert locks.list_held(stage.notes) == []
    for number in range(KILLS):  # no directory is stuck
        assert locks.find_holders(stage.notes, str(stage.work / str(number))) == []


def _life(stage: Launching) -> float:
    """How long one undisturbed launch takes here, now."""
    before = os.times().elapsed
    stage.launch("-p", "work 600", cwd=stage.root / "measure")
    stage.close()
    return os.times().elapsed - before


def _launch_and_kill(stage: Launching, directory: Path, delay: float) -> None:
    words = [sys.executable, "-m", "agentctl", "launch", "demo", "-p", "work 600"]
    launcher = subprocess.Popen(
        words, cwd=directory, env=environ_of(stage), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        launcher.wait(delay)
    except subprocess.TimeoutExpired:
        launcher.kill()  # our own child, not reaped yet: its pid is its own
        launcher.wait()


def _settle(stage: Launching) -> None:
    """What was started is an agent by now, or gone; a process still between the two is neither."""
    until(
        lambda: {p.comm for p in stage.processes()} <= {"demo-agent", "agentctl-shim"}, "all have begun"
    )
    until(lambda: len(stage.live()) == len(stage.agents()), "each has its session")


def _check_notes_and_processes(stage: Launching) -> None:
    sessions, agents = stage.live(), stage.agents()
    # no lost running agent: each is listed, with a session, alive
    assert {s.observation.owner.pid for s in sessions if s.observation.owner} == {p.pid for p in agents}
    assert all(s.observation.session_id for s in sessions)
    # no ghost: every note that names a live process names one of these; every lock held is of one
    identities = {p.identity for p in agents}
    for lock in locks.list_held(stage.notes):
        assert lock.identity in identities
    noted = {n.identity for n in launches.read_launches(stage.notes)}
    assert identities <= noted, "an agent that runs without a note"
    for identity in noted - identities:
        process = proc.find_process(identity)
        assert process is None or not process.is_alive
