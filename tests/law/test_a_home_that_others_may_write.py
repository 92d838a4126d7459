"""A state directory that another user owns or may write to: its sessions are listed, its words are not
believed, and none of its commands is run."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctl.state import fuses, launch_writes
from agentctl.state.fuse import Action
from agentctl.truth.model import Launch
from tests.fakes.demo import DemoStage
from tests.law.asking import agentctl_json, working
from tests.running import agentctl_of

ANOTHER = 65534
Spoil = Callable[[Path], None]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()


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


def furnished(demo: DemoStage) -> tuple[Path, Path, str]:
    """A home with a due fuse, an overdue hook and settings, all with commands; and a live session."""
    home, ran = Path(demo.environ["AGENTCTL_HOME"]), demo.root / "RAN"
    puppet, session_id = working(demo)
    notes = str(home / "state.db")
    launch_writes.begin(notes, Launch("aaaaaaaaaaaa", puppet.identity, session_id, "mine"))
    gone = puppet.identity._replace(start=1)
    launch_writes.begin(
        notes, Launch("bbbbbbbbbbbb", gone, "ended", "over", on_complete=f"touch {ran}"), force=True
    )
    (home / "launches" / "bbbbbbbbbbbb").mkdir(parents=True, mode=0o700)
    (home / "launches" / "bbbbbbbbbbbb" / "stdout").touch()
    command = Action("run", f"touch {ran}")
    fuses.light(notes, (command,), 0.001, directory=str(demo.root), cwd=str(demo.root))
    (home / "config.toml").write_text(f'[defaults]\non_create = "touch {ran}"\n')
    return home, ran, session_id


@pytest.mark.parametrize("spoil", WHOLE)
def test_its_sessions_are_listed_without_labels(demo: DemoStage, spoil: Spoil) -> None:
    home, _, session_id = furnished(demo)
    (before,) = agentctl_json(demo, "list")["sessions"]
    assert before["launch"]["name"] == "mine"
    spoil(home)
    answer = agentctl_json(demo, "list", "-a")
    (row,) = answer["sessions"]
    assert (row["id"], row["status"], row["launch"]) == (session_id, before["status"], None)
    (problem,) = answer["problems"]
    assert problem["kind"] == "forbidden"
    assert "chmod go-w" in problem["message"] or "AGENTCTL_HOME" in problem["message"]


@pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])
@pytest.mark.parametrize("spoil", [*WHOLE, *PARTS])
def test_nothing_is_written_and_none_of_its_commands_is_run(
    demo: DemoStage, spoil: Spoil, words: tuple[str, ...]
) -> None:
    home, ran, _ = furnished(demo)
    spoil(home)
    before = {path: path.stat().st_mtime_ns for path in sorted(home.rglob("*"))}
    refused = agentctl_of(demo, *words)
    assert refused.code == 4, refused
    first, hint = refused.err.splitlines()
    assert first.startswith(f"agentctl: {home}")
    assert "chmod go-w" in hint or "AGENTCTL_HOME" in hint
    assert not ran.exists()
    assert {path: path.stat().st_mtime_ns for path in sorted(home.rglob("*"))} == before


@pytest.mark.parametrize("spoil", [*WHOLE, *PARTS])
def test_doctor_says_it(demo: DemoStage, spoil: Spoil) -> None:
    home, _, _ = furnished(demo)
    spoil(home)
    said = agentctl_of(demo, "doctor")
    assert said.code == 1
    assert any("wrong" in line and str(home) in line for line in said.lines), said.out
