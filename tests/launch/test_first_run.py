"""Two first starts of an agent that makes a database: one makes it, the other waits."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.errors import SourceError
from agentctl.launch import first_run
from tests.fakes.opencode import OpenCodeStage
from tests.launched import Launched
from tests.running import environ_of
from tests.waiting import until

STAGE = OpenCodeStage


def _launch(stage: OpenCodeStage, directory: Path) -> subprocess.Popen[str]:
    directory.mkdir()
    words = ("launch", stage.adapter, "-p", "work 600", "--cwd", str(directory))
    return subprocess.Popen(
        [sys.executable, "-m", "agentctl", *words],
        env=environ_of(stage, PUPPET_MAKES="1.5"),
        cwd=stage.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_two_launches_at_once_into_a_new_home(stage: OpenCodeStage) -> None:
    agents = Launched(stage)
    launchers = [_launch(stage, stage.work / name) for name in ("one", "two", "three")]
    outputs = [each.communicate(timeout=60) for each in launchers]
    assert [each.returncode for each in launchers] == [0, 0, 0], outputs
    ids = {out.strip() for out, _ in outputs}
    assert len(ids) == len(launchers)
    assert {agents.read_session(session_id)["status"] for session_id in ids} == {"running"}


def test_one_waits_until_the_first_is_over(tmp_path: Path) -> None:
    state, database = str(tmp_path), str(tmp_path / "agent.db")
    one = first_run.Turn(state, database)
    program = (
        "import sys; from agentctl.launch.first_run import Turn; turn = Turn(*sys.argv[1:]); "
        "print('mine', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, state, database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None
            until(lambda: _has_it_open(other.pid), "it has come to the lock")
            Path(database).touch()  # it is there, and not ready
            assert not select.select([other.stdout], [], [], 10 * first_run.BEAT)[0], "it did not wait"
            one.end()
            one.end()
            assert other.communicate(timeout=20)[0] == "mine\n"
        finally:
            other.kill()


def _has_it_open(pid: int) -> bool:
    try:
        return any(
            str(fd.readlink()).endswith(first_run.LOCK) for fd in Path(f"/proc/{pid}/fd").iterdir()
        )
    except FileNotFoundError:  # one was closed meanwhile
        return False


def test_no_launch_waits_when_the_database_exists(tmp_path: Path) -> None:
    database = tmp_path / "agent.db"
    database.touch()
    turns = [first_run.Turn(str(tmp_path), str(database)) for _ in range(2)]
    assert [turn._lock for turn in turns] == [None, None]


def test_an_agent_without_a_database_leaves_no_trace(tmp_path: Path) -> None:
    first_run.Turn(str(tmp_path / "state"), None).end()
    assert list(tmp_path.iterdir()) == []


def test_the_wait_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "PATIENCE", 0.05)
    one = first_run.Turn(str(tmp_path), str(tmp_path / "agent.db"))
    assert first_run.Turn(str(tmp_path), str(tmp_path / "agent.db"))._lock is None
    one.end()


def test_no_state_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        first_run.Turn(str(tmp_path / "no" / "such"), str(tmp_path / "agent.db"))
