"""A state directory that another user owns or may write to: sessions are listed, but what the directory
says is not trusted, and none of its commands runs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctl.state import fuses, launch_writes
from agentctl.state.fuses import Action
from agentctl.truth.model import Launch
from tests.fakes.demo import DemoStage
from tests.law.asking import agentctl_json, start_agent
from tests.running import agentctl_of

ANOTHER = 65534
Spoil = Callable[[Path], None]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    stage = DemoStage(tmp_path)
    yield stage
    stage.close()


def give_away(home: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to another user")
    for path in (home, *home.iterdir()):
        os.chown(path, ANOTHER, ANOTHER)


def open_to_all(home: Path) -> None:
    home.chmod(0o777)


def open_to_the_group(home: Path) -> None:
    home.chmod(0o770)


def open_the_database(home: Path) -> None:
    (home / "state.db").chmod(0o666)


def give_away_launches(home: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to another user")
    os.chown(home / "launches", ANOTHER, ANOTHER)


def open_the_settings(home: Path) -> None:
    (home / "config.toml").chmod(0o666)


WHOLE: list[Spoil] = [give_away, open_to_all, open_to_the_group, open_the_database]
PARTS: list[Spoil] = [give_away_launches, open_the_settings]
WRITERS = (
    ("lock", "."),
    ("fuse", "set", ".", "--in", "1h", "--emit", "x"),
    ("prune",),
    ("daemon", "start"),
    ("launch", "demo", "-p", "exit 0", "--cwd", "."),
)


def fill_home(demo: DemoStage) -> tuple[Path, Path, str]:
    """Make a live session, and a home where a due fuse, an overdue hook and settings have commands."""
    home, trace = Path(demo.environ["AGENTCTL_HOME"]), demo.root / "RAN"
    puppet, session_id = start_agent(demo)
    notes = str(home / "state.db")
    launch_writes.begin_launch(notes, Launch("aaaaaaaaaaaa", puppet.identity, session_id, "mine"))
    dead_owner = puppet.identity._replace(start=1)
    launch_writes.begin_launch(
        notes,
        Launch("bbbbbbbbbbbb", dead_owner, "ended", "over", on_complete=f"touch {trace}"),
        force=True,
    )
    (home / "launches" / "bbbbbbbbbbbb").mkdir(parents=True, mode=0o700)
    (home / "launches" / "bbbbbbbbbbbb" / "stdout").touch()
    command = Action("run", f"touch {trace}")
    fuses.set_fuse(notes, (command,), 0.001, directory=str(demo.root), cwd=str(demo.root))
    (home / "config.toml").write_text(f'[defaults]\non_create = "touch {trace}"\n')
    return home, trace, session_id


@pytest.mark.few(2)
@pytest.mark.parametrize("spoil", WHOLE)
def test_sessions_are_listed_without_labels(demo: DemoStage, spoil: Spoil) -> None:
    home, _, session_id = fill_home(demo)
    (before,) = agentctl_json(demo, "list")["sessions"]
    assert before["launch"]["name"] == "mine"
    spoil(home)
    answer = agentctl_json(demo, "list", "-a")
    (row,) = answer["sessions"]
    assert (row["id"], row["status"], row["launch"]) == (session_id, before["status"], None)
    (problem,) = answer["problems"]
    assert problem["kind"] == "forbidden"
    assert "chmod go-w" in problem["message"] or "AGENTCTL_HOME" in problem["message"]


@pytest.mark.few(10)
@pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])
@pytest.mark.parametrize("spoil", [*WHOLE, *PARTS])
def test_writers_are_refused_and_no_command_runs(
    demo: DemoStage, spoil: Spoil, words: tuple[str, ...]
) -> None:
    home, trace, _ = fill_home(demo)
    spoil(home)
    before = {path: path.stat().st_mtime_ns for path in sorted(home.rglob("*"))}
    ran = agentctl_of(demo, *words)
    assert ran.code == 4, ran
    first, hint = ran.err.splitlines()
    assert first.startswith(f"agentctl: {home}")
    assert "chmod go-w" in hint or "AGENTCTL_HOME" in hint
    assert not trace.exists()
    assert {path: path.stat().st_mtime_ns for path in sorted(home.rglob("*"))} == before


@pytest.mark.parametrize("spoil", [*WHOLE, *PARTS])
def test_doctor_reports_the_home(demo: DemoStage, spoil: Spoil) -> None:
    home, _, _ = fill_home(demo)
    spoil(home)
    doctor = agentctl_of(demo, "doctor")
    assert doctor.code == 1
    assert any("wrong" in line and str(home) in line for line in doctor.lines), doctor.out
