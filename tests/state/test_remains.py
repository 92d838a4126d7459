"""What the notes say of when a launch may be forgotten."""

import os
import sqlite3
from pathlib import Path

import pytest

from agentctl.errors import SourceError
from agentctl.state import db, launch_writes, remains
from agentctl.system import proc
from agentctl.system.proc import namespace
from agentctl.truth.model import Exit, Launch

ME = proc.read_process(os.getpid(), proc.boot_id()).identity
DEAD = ME._replace(start=ME.start - 1)


def test_what_is_told(path: str) -> None:
    launch_writes.begin(path, Launch("1a", ME, "s", "n", on_complete="make test", created_at=1.0))
    launch_writes.begin(path, Launch("2b", DEAD, created_at=2.0))
    launch_writes.claim_end(path, "2b", Exit(0, 5.0, ""))
    one, two = remains.recorded(path)
    assert one == ("1a", ME, namespace(), "s", "n", 1.0, None, None, True)
    assert (two.id, two.ended_at, two.has_hook) == ("2b", 5.0, False)
    assert two.finished_at is not None


def test_who_may_live(path: str) -> None:
    launch_writes.begin(path, Launch("1a", ME))
    [note] = remains.recorded(path)
    assert note.may_live
    dead = note._replace(identity=DEAD)
    assert not dead.may_live
    assert not dead._replace(namespace=None).may_live
    assert dead._replace(namespace="pid:[1]").may_live  # where we cannot look
    assert not dead._replace(namespace="pid:[1]", identity=DEAD._replace(boot="before")).may_live


def test_no_database_or_an_old_one_has_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert remains.recorded(path) == []
    assert not Path(path).exists()
    with monkeypatch.context() as before:
        before.setattr(db, "MIGRATIONS", db.MIGRATIONS[:1])
        db.open_writable(path).close()
    assert remains.recorded(path) == []


def test_rubbish_is_an_answer(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_bytes(b"rubbish\n" * 500)
    with pytest.raises(SourceError):
        remains.recorded(path)


def test_a_note_of_an_older_agentctl(path: str) -> None:
    launch_writes.begin(path, Launch("1a", DEAD))
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update launch set detail = '{}'")
    connection.close()
    [note] = remains.recorded(path)
    assert note.namespace is None
    assert not note.may_live


def test_a_hook_that_is_no_text_is_still_a_hook(path: str) -> None:
    """As an older agentctl has taken it."""
    launch_writes.begin(path, Launch("1a", ME, on_complete="echo caf\udce9"))
    [note] = remains.recorded(path)
    assert note.has_hook
