"""Our database: made once, brought up to date in order, private."""

import os
import sqlite3
from pathlib import Path
from typing import cast

import pytest

from agentctl.errors import Gone, Malformed, Passing, Unsupported
from agentctl.state import (
    db,
    fuses,
    journal,
    launch_writes,
    launches,
    locks,
    notified,
    outbox,
    remains,
    targets,
)
from agentctl.state.fuse import Action
from agentctl.system import proc
from agentctl.truth.event import Event
from agentctl.truth.model import HookRun, Launch


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
    db._write_ahead(cast("sqlite3.Connection", busy), "")
    assert busy.left == 0


def test_it_does_not_wait_for_what_will_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = _Busy(3, sqlite3.SQLITE_READONLY)
    with pytest.raises(sqlite3.OperationalError):
        db._write_ahead(cast("sqlite3.Connection", broken), "")
    assert broken.left == 2
    monkeypatch.setattr(db, "PATIENCE", 0.0)
    with pytest.raises(sqlite3.OperationalError):
        db._write_ahead(cast("sqlite3.Connection", _Busy(10**6, sqlite3.SQLITE_BUSY)), "")


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


def _with_a_byte_that_is_no_text(path: str) -> None:
    """In every text of every row."""
    connection = sqlite3.connect(path)
    tables = [
        row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")
    ]
    for table in tables:
        for _, name, kind, *_ in connection.execute(f'pragma table_info("{table}")').fetchall():
            if kind.lower() == "text":
                bad = "cast(x'636166e9' as text)"
                connection.execute(
                    f"""update "{table}" set "{name}" = replace("{name}", 'cafe', {bad})"""
                )
    connection.commit()
    connection.close()


def test_no_byte_keeps_us_from_reading_it(path: str) -> None:
    here = proc.read_process(os.getpid(), proc.boot_id()).identity
    note = Launch("1a", here, "cafe1", "cafe", "cafe", "cafe", (("cafe", "cafe"),), "cafe", "/cafe")
    launch_writes.begin(path, note._replace(on_complete="cafe"), timeout=60)
    launch_writes.hook_ran(path, "1a", HookRun("on-complete", "cafe", 0, 0.1, "cafe"))
    locks.acquire(path, str(Path(path).parent), "cafe", "cafe", None)
    fuses.light(path, (Action("run", "cafe"),), 60, directory="/cafe", cwd="/cafe", label="cafe")
    with db.transaction(path) as connection:
        connection.execute("insert into target values ('webhook', 'cafe', '[\"*\"]', null, null, null)")
    journal.record(
        path, [Event("session.idle", 1.0, None, "cafe", "cafe", "cafe", {"data": {"k": "cafe"}})]
    )
    _with_a_byte_that_is_no_text(path)
    bad = "caf\ufffd"
    [told] = launches.recorded(path)
    assert (told.name, told.group, told.on_complete, told.meta) == (bad, bad, bad, ((bad, bad),))
    [left] = remains.recorded(path)
    assert (left.session_id, left.has_hook) == (f"{bad}1", True)
    assert {lock.by for lock in locks.written(path)} == {None, bad}
    assert {fuse.label for fuse in fuses.recorded(path)} == {"timeout", bad}
    assert journal.latest(path)[-1].body == {"data": {"k": bad}}
    assert [delivery.target for delivery, _ in outbox.listed(path, "webhook")] == [bad]
    assert targets.known(path) == {("webhook", bad)}
    assert notified.pending(path) == {}
    assert launch_writes.claim_end(path, "1a", None)
    launch_writes.forget(path, ["1a"])
    assert launches.recorded(path) == []


def test_who_holds_it_for_long_is_no_damage(path: str) -> None:
    connection = db.open_writable(path)
    connection.execute("pragma journal_mode = delete")
    connection.execute("begin exclusive")
    try:
        with pytest.raises(Passing, match="has held it for too long") as told:
            locks.written(path)
        assert told.value.hint == ""
    finally:
        connection.close()


def test_what_is_damaged_can_be_deleted_and_that_is_said(path: str) -> None:
    Path(path).parent.mkdir(mode=0o700)
    Path(path).write_text("these are somebody's notes\n" * 200)
    for ask in (launches.recorded, remains.recorded, locks.written, fuses.recorded, journal.latest):
        with pytest.raises(Malformed, match="not a database") as told:
            ask(path)
        assert "delete it" in told.value.hint
        assert "no session is lost" in told.value.advice


def test_what_it_uses_no_more_is_given_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "MUCH", 1 << 20)
    with db.transaction(path) as connection:
        connection.execute("create table filler as select zeroblob(3000000) as data")
    assert not db.give_back(path)
    with db.transaction(path) as connection:
        connection.execute("drop table filler")
    before, where = Path(path).stat().st_size, db.place(path)
    assert before > 3_000_000
    assert db.give_back(path)
    assert Path(path).stat().st_size < 1_000_000
    assert db.place(path) == where
    assert not db.give_back(path)


@pytest.mark.parametrize("cause", [ValueError("no number"), sqlite3.DatabaseError("damaged")])
def test_what_is_wrong_with_it_is_told_with_its_cause(path: str, cause: Exception) -> None:
    db.open_writable(path).close()
    with pytest.raises(Malformed) as caught, db.reader(path):
        raise Malformed(path, "unreadable") from cause
    assert caught.value.__cause__ is cause
