"""Launch notes: many writers, no note lost."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from agentctl.errors import Forbidden, Malformed, SourceError
from agentctl.state import db, launch_writes, launches, schema
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity, pid_namespace
from agentctl.truth.model import Exit, HookRun, Launch, Worktree
from tests.running import SOURCES

IDENTITY = ProcessIdentity("boot", 4711, 12345)
WRITERS, NOTES = 20, 5


def test_a_note_is_read_as_it_was_recorded(path: str) -> None:
    bare = Launch("1", IDENTITY, created_at=1.0, namespace="pid:[1]")
    full = Launch(
        "2", IDENTITY, "s", "näme \x1b", "group", "spec", (("a", "1"), ("b\n", "\u202e")), "demo", "/w",
        "m-1", Worktree("/r", "/r-worktrees/b", "b", "c0ffee"), "make test", 2.0,
        Exit(-9, 3.0, f"{path}#2"), (HookRun("on-complete", "make test", 0, 1.5, "/o"),),
        None, "pid:[1]",
    )  # fmt: skip
    launch_writes.begin_launch(path, bare)
    launch_writes.begin_launch(path, full)
    assert launches.read_launches(path) == [bare, full]


def test_the_same_launch_is_one_note(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1", IDENTITY))
    launch_writes.begin_launch(path, Launch("1", IDENTITY, "s", name="later"))
    assert [note.name for note in launches.read_launches(path)] == ["later"]


def test_without_a_database_there_are_no_notes(path: str) -> None:
    assert launches.read_launches(path) == []
    assert not Path(path).exists()  # reading creates nothing


@pytest.mark.parametrize("deleted", [True, False])
def test_a_database_that_is_deleted_while_it_is_opened(
    path: str, monkeypatch: pytest.MonkeyPatch, *, deleted: bool
) -> None:
    """The error of SQLite does not say whether there is a file."""
    Path(path).parent.mkdir()
    Path(path).touch()

    def refuse(*_: object, **__: object) -> NoReturn:
        if deleted:
            Path(path).unlink(missing_ok=True)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr("agentctl.state.launches.sqlite3.connect", refuse)
    monkeypatch.setattr(db, "open_reader", _raise_forbidden)
    if deleted:
        assert launches.read_launches(path) == []
    else:
        with pytest.raises(SourceError):
            launches.read_launches(path)


def _raise_forbidden(path: str, answers: object = None) -> NoReturn:
    raise Forbidden(path, "unable to open database file")


@pytest.mark.parametrize("rubbish", [b"rubbish\n" * 500, b"\0" * 100])
def test_rubbish_is_an_error(path: str, rubbish: bytes) -> None:
    Path(path).parent.mkdir()
    Path(path).write_bytes(rubbish)
    with pytest.raises(SourceError):
        launches.read_launches(path)


def test_an_empty_file_holds_no_note(path: str) -> None:
    """A launch that finds the disk full leaves one."""
    Path(path).parent.mkdir()
    Path(path).touch()
    assert launches.read_launches(path) == []
    launch_writes.begin_launch(path, Launch("1", IDENTITY))
    assert len(launches.read_launches(path)) == 1


@pytest.mark.parametrize("meta", ["{", "[]", "7", ""])
def test_a_note_that_makes_no_sense_is_an_error(path: str, meta: str) -> None:
    launch_writes.begin_launch(path, Launch("1", IDENTITY))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update launch set meta = ?", (meta,))
    connection.close()
    with pytest.raises(Malformed, match="cannot be read"):
        launches.read_launches(path)


def test_a_name_that_cannot_be_written_is_an_error(path: str) -> None:
    with pytest.raises(Malformed):
        launch_writes.begin_launch(path, Launch("1", IDENTITY, name="\udcff"))


_WRITER = f"""
import sys
from agentctl.state import launch_writes
from agentctl.system.proc import ProcessIdentity
from agentctl.truth.model import Launch
sys.stdin.readline()
for number in range({NOTES}):
    note = Launch(f"{{sys.argv[2]}}/{{number}}", ProcessIdentity("b", 1, 2))
    launch_writes.begin_launch(sys.argv[1], note)
"""


def test_twenty_writers_lose_nothing(path: str) -> None:
    """All are ready before the first may write: the database does not exist yet."""
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
    errors = [writer.communicate(timeout=60)[1].decode() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * WRITERS, errors
    expected = {f"{writer}/{note}" for writer in range(WRITERS) for note in range(NOTES)}
    assert {note.id for note in launches.read_launches(path)} == expected


ME = proc.read_process(os.getpid(), proc.read_boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)


def test_rows_have_what_is_recorded(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME, "s", "n", on_complete="make test", created_at=1.0))
    launch_writes.begin_launch(path, Launch("2b", DEAD, created_at=2.0))
    launch_writes.claim_end(path, "2b", Exit(0, 5.0, ""))
    one, two = launches.read_launch_rows(path)
    assert one == ("1a", ME, pid_namespace(), "s", "n", 1.0, None, None, True)
    assert (two.id, two.ended_at, two.has_hook) == ("2b", 5.0, False)
    assert two.finished_at is not None


def test_a_launch_may_live_unless_it_is_proven_dead(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", ME))
    [note] = launches.read_launch_rows(path)
    assert note.may_live
    dead = note._replace(identity=DEAD)
    assert not dead.may_live
    assert not dead._replace(namespace=None).may_live
    assert dead._replace(namespace="pid:[1]").may_live  # where we cannot look
    assert not dead._replace(namespace="pid:[1]", identity=DEAD._replace(boot="before")).may_live


def test_no_database_and_an_old_one_have_no_rows(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert launches.read_launch_rows(path) == []
    assert not Path(path).exists()
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        db.open_writable(path).close()
    assert launches.read_launch_rows(path) == []


def test_rows_of_rubbish_are_an_error(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_bytes(b"rubbish\n" * 500)
    with pytest.raises(SourceError):
        launches.read_launch_rows(path)


def test_a_note_of_an_older_agentctl_has_no_namespace(path: str) -> None:
    launch_writes.begin_launch(path, Launch("1a", DEAD))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update launch set detail = '{}'")
    connection.close()
    [note] = launches.read_launch_rows(path)
    assert note.namespace is None
    assert not note.may_live


def test_a_hook_that_is_no_text_is_still_a_hook(path: str) -> None:
    """An older agentctl accepted such a command."""
    launch_writes.begin_launch(path, Launch("1a", ME, on_complete="echo caf\udce9"))
    [note] = launches.read_launch_rows(path)
    assert note.has_hook
