"""Launch notes: many writers, no note lost."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from agentctl.errors import Forbidden, Malformed, SourceError
from agentctl.state import db, launch_writes, launches
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Exit, HookRun, Launch, Worktree
from tests.running import SOURCES

IDENTITY = ProcessIdentity("boot", 4711, 12345)
WRITERS, NOTES = 20, 5


def test_what_is_recorded_is_told(path: str) -> None:
    bare = Launch("1", IDENTITY, created_at=1.0, namespace="pid:[1]")
    full = Launch(
        "2", IDENTITY, "s", "näme \x1b", "group", "spec", (("a", "1"), ("b\n", "\u202e")), "demo", "/w",
        "m-1", Worktree("/r", "/r-worktrees/b", "b", "c0ffee"), "make test", 2.0,
        Exit(-9, 3.0, f"{path}#2"), (HookRun("on-complete", "make test", 0, 1.5, "/o"),),
        None, "pid:[1]",
    )  # fmt: skip
    launch_writes.begin(path, bare)
    launch_writes.begin(path, full)
    assert launches.recorded(path) == [bare, full]


def test_the_same_launch_is_one_note(path: str) -> None:
    launch_writes.begin(path, Launch("1", IDENTITY))
    launch_writes.begin(path, Launch("1", IDENTITY, "s", name="later"))
    assert [note.name for note in launches.recorded(path)] == ["later"]


def test_no_database_no_notes(path: str) -> None:
    assert launches.recorded(path) == []
    assert not Path(path).exists()  # asking makes nothing


@pytest.mark.parametrize("deleted", [True, False])
def test_one_that_is_deleted_while_it_is_opened(
    path: str, monkeypatch: pytest.MonkeyPatch, *, deleted: bool
) -> None:
    """SQLite cannot open it, and says no more than that."""
    Path(path).parent.mkdir()
    Path(path).touch()

    def refuse(*_: object, **__: object) -> NoReturn:
        if deleted:
            Path(path).unlink(missing_ok=True)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", refuse)
    monkeypatch.setattr(db, "reader", _forbidden)
    if deleted:
        assert launches.recorded(path) == []
    else:
        with pytest.raises(SourceError):
            launches.recorded(path)


def _forbidden(path: str) -> NoReturn:
    raise Forbidden(path, "unable to open database file")


@pytest.mark.parametrize("rubbish", [b"rubbish\n" * 500, b"\0" * 100])
def test_rubbish_is_an_answer(path: str, rubbish: bytes) -> None:
    Path(path).parent.mkdir()
    Path(path).write_bytes(rubbish)
    with pytest.raises(SourceError):
        launches.recorded(path)


def test_an_empty_file_holds_no_note(path: str) -> None:
    """As a launch leaves it that found the disk full."""
    Path(path).parent.mkdir()
    Path(path).touch()
    assert launches.recorded(path) == []
    launch_writes.begin(path, Launch("1", IDENTITY))
    assert len(launches.recorded(path)) == 1


@pytest.mark.parametrize("meta", ["{", "[]", "7", ""])
def test_a_note_that_makes_no_sense_is_told(path: str, meta: str) -> None:
    launch_writes.begin(path, Launch("1", IDENTITY))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update launch set meta = ?", (meta,))
    connection.close()
    with pytest.raises(Malformed, match="makes no sense"):
        launches.recorded(path)


def test_a_name_that_cannot_be_written_is_told(path: str) -> None:
    with pytest.raises(Malformed):
        launch_writes.begin(path, Launch("1", IDENTITY, name="\udcff"))


_WRITER = f"""
import sys
from agentctl.state import launch_writes
from agentctl.system.identity import ProcessIdentity
from agentctl.truth.model import Launch
sys.stdin.readline()
for number in range({NOTES}):
    launch_writes.begin(sys.argv[1], Launch(f"{{sys.argv[2]}}/{{number}}", ProcessIdentity("b", 1, 2)))
"""


def test_twenty_writers_lose_nothing(path: str) -> None:
    """All at the door before the first may enter: the database does not exist yet."""
    environ = {"PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, path, str(number)],
            env=environ,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    told = [writer.communicate(timeout=60)[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS, told
    expected = {f"{writer}/{note}" for writer in range(WRITERS) for note in range(NOTES)}
    assert {note.id for note in launches.recorded(path)} == expected
