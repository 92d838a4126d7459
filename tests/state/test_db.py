"""Our database: created once, migrated in order, private."""

import os
import sqlite3
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.errors import Gone, Malformed, Temporary, Unsupported
from agentctl.state import db, fuses, journal, launch_writes, launches, locks, outbox, schema
from agentctl.state.db import is_utf8, path_to_text, text_to_path
from agentctl.state.fuses import Action
from agentctl.system import proc
from agentctl.truth.event import Event
from agentctl.truth.model import HookRun, Launch


def test_a_new_database_is_private_and_up_to_date(path: str) -> None:
    connection = db.open_writable(path)
    try:
        assert db.read_version(connection) == len(schema.MIGRATIONS)
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
    monkeypatch.setattr(
        schema, "MIGRATIONS", (*schema.MIGRATIONS, "alter table launch add column more text")
    )
    for _ in range(2):
        connection = db.open_writable(path)
        assert db.read_version(connection) == len(schema.MIGRATIONS)
        assert connection.execute("select more from launch").fetchall() == [(None,)]
        connection.close()


def test_a_migration_that_fails_changes_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "no such statement"))
    with pytest.raises(Malformed):
        db.open_writable(path)
    plain = sqlite3.connect(path)
    assert plain.execute("select name from sqlite_master").fetchall() == []
    assert plain.execute("pragma user_version").fetchone() == (0,)
    plain.close()


def test_a_newer_database_is_not_touched(path: str) -> None:
    connection = db.open_writable(path)
    connection.execute("pragma user_version = 99")
    connection.close()
    with pytest.raises(Unsupported, match="newer agentctl"):
        db.open_writable(path)


def test_a_file_that_is_no_database_is_refused_and_kept(path: str) -> None:
    Path(path).parent.mkdir()
    Path(path).write_text("these are the user's notes\n" * 200)
    with pytest.raises(Malformed, match="not a database"):
        db.open_writable(path)
    assert "the user's notes" in Path(path).read_text()


def test_without_a_home_there_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        db.open_writable(str(tmp_path / "nonexistent" / ".agentctl" / "state.db"))


class _Busy:
    """Another process is switching the same new database: SQLite fails at once, for a while."""

    def __init__(self, times: int, code: int) -> None:
        self.failures, self._code = times, code

    def execute(self, _: str) -> None:
        if self.failures:
            self.failures -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self._code
            raise error


def test_write_ahead_waits_for_a_busy_database() -> None:
    busy = _Busy(3, sqlite3.SQLITE_BUSY)
    db._write_ahead(cast("sqlite3.Connection", busy), "")
    assert busy.failures == 0


def test_write_ahead_waits_for_no_other_error_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = _Busy(3, sqlite3.SQLITE_READONLY)
    with pytest.raises(sqlite3.OperationalError):
        db._write_ahead(cast("sqlite3.Connection", broken), "")
    assert broken.failures == 2
    monkeypatch.setattr(db, "PATIENCE", 0.0)
    with pytest.raises(sqlite3.OperationalError):
        db._write_ahead(cast("sqlite3.Connection", _Busy(10**6, sqlite3.SQLITE_BUSY)), "")


def test_the_last_event_of_an_unnamed_process_is_its_identification(path: str) -> None:
    unnamed = Event("session.running", 1.0, None, "demo", "proc:7@7")
    identified = Event("session.identified", 2.0, None, "demo", "s1", body={"data": {"was": "proc:7@7"}})
    idle = Event("session.idle", 3.0, None, "demo", "s1")
    journal.append_events(path, [unnamed, identified, idle])
    assert [event.type for event in journal.read_last_events(path)] == [
        "session.identified",
        "session.idle",
    ]
    with db.transaction(path) as connection:
        assert journal.prune_events(connection, 10.0) == 2
    assert [event.type for event in journal.read_last_events(path)] == ["session.idle"]


def test_a_full_disk_is_a_temporary_error(path: str) -> None:
    connection = db.open_writable(path)
    connection.execute("pragma max_page_count = 1")
    try:
        with pytest.raises(Temporary), db.begin_transaction(connection, path):
            connection.execute("create table filler as select zeroblob(1000000)")
    finally:
        connection.close()


def test_the_file_id_lasts_until_the_file_is_deleted(path: str) -> None:
    assert db.read_file_id(path) is None
    connection = db.open_writable(path)
    before = db.read_file_id(path)
    with db.transaction(path):
        pass
    assert before is not None
    assert before == db.read_file_id(path)
    os.unlink(path)
    assert db.read_file_id(path) is None
    db.open_writable(path).close()
    assert db.read_file_id(path) not in (
        None,
        before,
    )  # the old file is still open, so its inode is in use
    connection.close()


def _insert_bytes_that_are_no_text(path: str) -> None:
    """Into every text of every row."""
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


def test_rows_with_bytes_that_are_no_text_can_be_read(path: str) -> None:
    here = proc.read_process(os.getpid(), proc.read_boot_id()).identity
    note = Launch("1a", here, "cafe1", "cafe", "cafe", "cafe", (("cafe", "cafe"),), "cafe", "/cafe")
    launch_writes.begin_launch(path, note._replace(on_complete="cafe"), timeout=60)
    launch_writes.record_hook(path, "1a", HookRun("on-complete", "cafe", 0, 0.1, "cafe"))
    locks.acquire_lock(path, str(Path(path).parent), "cafe", "cafe", None)
    fuses.set_fuse(path, (Action("run", "cafe"),), 60, directory="/cafe", cwd="/cafe", label="cafe")
    with db.transaction(path) as connection:
        connection.execute("insert into target values ('webhook', 'cafe', '[\"*\"]', null, null, null)")
    journal.append_events(
        path, [Event("session.idle", 1.0, None, "cafe", "cafe", "cafe", {"data": {"k": "cafe"}})]
    )
    _insert_bytes_that_are_no_text(path)
    bad = "caf\ufffd"
    [launch] = launches.read_launches(path)
    assert (launch.name, launch.group, launch.on_complete, launch.meta) == (bad, bad, bad, ((bad, bad),))
    [row] = launches.read_launch_rows(path)
    assert (row.session_id, row.has_hook) == (f"{bad}1", True)
    assert {lock.by for lock in locks.read_locks(path)} == {None, bad}
    assert {fuse.label for fuse in fuses.list_fuses(path)} == {"timeout", bad}
    assert journal.read_latest(path)[-1].body == {"data": {"k": bad}}
    assert [delivery.target for delivery, _ in outbox.list_deliveries(path, "webhook")] == [bad]
    assert outbox.list_targets(path) == {("webhook", bad)}
    assert outbox.count_pending(path) == {}
    assert launch_writes.claim_end(path, "1a", None)
    launch_writes.forget_launches(path, ["1a"])
    assert launches.read_launches(path) == []


def test_a_long_lock_is_not_reported_as_damage(path: str) -> None:
    connection = db.open_writable(path)
    connection.execute("pragma journal_mode = delete")
    connection.execute("begin exclusive")
    try:
        with pytest.raises(Temporary, match="has held it for too long") as caught:
            locks.read_locks(path)
        assert caught.value.hint == ""
    finally:
        connection.close()


def test_the_error_about_damage_says_that_the_file_may_be_deleted(path: str) -> None:
    Path(path).parent.mkdir(mode=0o700)
    Path(path).write_text("these are the user's notes\n" * 200)
    for read in (
        launches.read_launches,
        launches.read_launch_rows,
        locks.read_locks,
        fuses.list_fuses,
        journal.read_latest,
    ):
        with pytest.raises(Malformed, match="not a database") as caught:
            read(path)
        assert "delete it" in caught.value.hint
        assert "no session is lost" in caught.value.advice


def test_unused_space_is_returned(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "MUCH", 1 << 20)
    with db.transaction(path) as connection:
        connection.execute("create table filler as select zeroblob(3000000) as data")
    assert not db.shrink_file(path)
    with db.transaction(path) as connection:
        connection.execute("drop table filler")
    before, where = Path(path).stat().st_size, db.read_file_id(path)
    assert before > 3_000_000
    assert db.shrink_file(path)
    assert Path(path).stat().st_size < 1_000_000
    assert db.read_file_id(path) == where
    assert not db.shrink_file(path)


@pytest.mark.parametrize("cause", [ValueError("no number"), sqlite3.DatabaseError("damaged")])
def test_an_error_in_a_reader_keeps_its_cause(path: str, cause: Exception) -> None:
    db.open_writable(path).close()
    with pytest.raises(Malformed) as caught, db.open_reader(path):
        raise Malformed(path, "unreadable") from cause
    assert caught.value.__cause__ is cause


@given(st.binary().filter(lambda raw: b"\0" not in raw))
def test_any_path_becomes_text_and_the_same_path_again(raw: bytes) -> None:
    path = os.fsdecode(raw)
    text = path_to_text(path)
    text.encode()  # fails for text that no column can store
    assert text_to_path(text) == path


def test_a_path_that_is_text_is_unchanged() -> None:
    assert path_to_text("/home/mé") == "/home/mé"


def test_is_utf8() -> None:
    assert is_utf8("caf\u00e9 \U0001f600\0")
    assert not is_utf8(os.fsdecode(b"caf\xe9"))
    assert not is_utf8("\ud800")
