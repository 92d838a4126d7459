"""Our database: made once, brought up to date in order, private."""

import os
import sqlite3
from pathlib import Path
from typing import cast

import pytest

from agentctl.errors import Gone, Malformed, Passing, Unsupported
from agentctl.store import db, journal
from agentctl.truth.event import Event


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "state.db")


def test_it_is_made_private_and_up_to_date(path: str) -> None:
    connection = db.open_writable(path)
    try:
        assert db.version(connection) == len(db.MIGRATIONS)
        assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
        for file in Path(path).parent.iterdir():
            assert file.stat().st_mode & 0o777 == 0o600, file
    finally:
        connection.close()
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700


def test_a_second_opening_changes_nothing(path: str) -> None:
    db.open_writable(path).close()
    connection = db.open_writable(path)
    connection.execute(
        "insert into launch (id, boot, pid, start, created_at) values ('a', 'b', 1, 2, 0)"
    )
    connection.close()
    again = db.open_writable(path)
    assert again.execute("select count(*) from launch").fetchone() == (1,)
    again.close()


def test_a_migration_runs_once_and_keeps_the_rows(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    test_a_second_opening_changes_nothing(path)
    monkeypatch.setattr(db, "MIGRATIONS", (*db.MIGRATIONS, "alter table launch add column more text"))
    for _ in range(2):
        connection = db.open_writable(path)
        assert db.version(connection) == len(db.MIGRATIONS)
        assert connection.execute("select more from launch").fetchall() == [(None,)]
        connection.close()


def test_a_migration_that_fails_leaves_it_as_it_was(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "MIGRATIONS", (*db.MIGRATIONS, "no such statement"))
    with pytest.raises(Malformed):
        db.open_writable(path)
    plain = sqlite3.connect(path)
    assert plain.execute("select name from sqlite_master").fetchall() == []
    assert plain.execute("pragma user_version").fetchone() == (0,)
    plain.close()


def test_a_newer_one_is_not_touched(path: str) -> None:
    connection = db.open_writable(path)
    connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(Unsupported, match="newer agentctl"):
        db.open_writable(path)


def test_rubbish_is_told_and_kept(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_text("these are somebody's notes\n" * 200)
    with pytest.raises(Malformed, match="not a database"):
        db.open_writable(path)
    assert "somebody's notes" in Path(path).read_text()


def test_no_home_no_database(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        db.open_writable(str(tmp_path / "nonexistent" / ".agentctl" / "state.db"))


class _Busy:
    """Somebody else is switching the same new database: SQLite fails at once, for a while."""

    def __init__(self, times: int, code: int) -> None:
        self.left, self._code = times, code

    def execute(self, _: str) -> None:
        if self.left:
            self.left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self._code
            raise error


def test_it_waits_its_turn_to_become_write_ahead() -> None:
    busy = _Busy(3, sqlite3.SQLITE_BUSY)
    db._write_ahead(cast("sqlite3.Connection", busy))
    assert busy.left == 0


def test_it_does_not_wait_for_what_will_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = _Busy(3, sqlite3.SQLITE_READONLY)
    with pytest.raises(sqlite3.OperationalError):
        db._write_ahead(cast("sqlite3.Connection", broken))
    assert broken.left == 2
    monkeypatch.setattr(db, "PATIENCE", 0.0)
    with pytest.raises(sqlite3.OperationalError):
        db._write_ahead(cast("sqlite3.Connection", _Busy(10**6, sqlite3.SQLITE_BUSY)))


def test_that_a_process_has_a_session_is_the_last_word_on_it_without_one(path: str) -> None:
    nameless = Event("session.running", 1.0, None, "demo", "proc:7@7")
    named = Event("session.identified", 2.0, None, "demo", "s1", body={"data": {"was": "proc:7@7"}})
    idle = Event("session.idle", 3.0, None, "demo", "s1")
    journal.record(path, [nameless, named, idle])
    assert [event.type for event in journal.last_told(path)] == ["session.identified", "session.idle"]
    with db.transaction(path) as connection:
        assert journal.prune(connection, 10.0) == 2
    assert [event.type for event in journal.last_told(path)] == ["session.idle"]


def test_a_full_disk_is_a_refusal_that_passes(path: str) -> None:
    connection = db.open_writable(path)
    connection.execute("pragma max_page_count = 1")
    try:
        with pytest.raises(Passing), db.step(connection, path):
            connection.execute("create table filler as select zeroblob(1000000)")
    finally:
        connection.close()


def test_it_is_in_its_place_until_it_is_deleted(path: str) -> None:
    assert db.place(path) is None
    connection = db.open_writable(path)
    before = db.place(path)
    with db.transaction(path):
        pass
    assert before is not None
    assert before == db.place(path)
    os.unlink(path)
    assert db.place(path) is None
    db.open_writable(path).close()
    assert db.place(path) not in (None, before)  # that is still open, so none has its inode
    connection.close()
