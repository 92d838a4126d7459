"""A copy of a database that others write: exact, or an error."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctl.errors import Gone, Malformed, SourceError, Temporary, Unsupported
from agentctl.system import files, sqlite_copy
from tests.waiting import until

ROWS = 200
# Each commit writes every row, so that a mixture of two commits shows. The small log often restarts.
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma wal_autocheckpoint = 60")
connection.execute("pragma synchronous = off")
number = 0
while True:
    number += 1
    connection.execute("begin immediate")
    connection.execute("update facts set number = ?, text = hex(randomblob(200))", (number,))
    if number % 7 == 0:
        connection.execute("delete from facts where id > 100")
        connection.execute("insert into facts select id + 100, number, text from facts where id <= 100")
    connection.execute("commit")
"""


def make_database(path: Path, mode: str = "wal") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma journal_mode = {mode}")
        connection.execute("create table facts (id integer primary key, number integer, text text)")
        rows = [(n, 0, "x" * 400) for n in range(1, ROWS + 1)]
        connection.executemany("insert into facts values (?, ?, ?)", rows)
        connection.commit()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_database(tmp_path / "agent.db")


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """The agent, which has the database open all the time and never checkpoints."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_autocheckpoint = 0")
        connection.execute("select * from facts").fetchall()
        yield connection


def count_numbers(path: Path) -> list[tuple[int, int]]:
    """Return each number, and the count of its rows."""
    with closing(sqlite_copy.connect_copy(str(path))) as copy:
        assert copy.execute("pragma integrity_check").fetchall() == [("ok",)]
        return copy.execute("select number, count(*) from facts group by number").fetchall()


def test_rows_in_the_log_are_read(path: Path, writer: sqlite3.Connection) -> None:
    for number in (1, 2):
        writer.execute("update facts set number = ?", (number,))
        writer.commit()
        assert count_numbers(path) == [(number, ROWS)]


def test_uncommitted_rows_are_not_read(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("pragma cache_size = 2")  # so that it spills into the log
    writer.execute("begin immediate")
    writer.execute("update facts set number = 1, text = hex(randomblob(2000))")
    assert count_numbers(path) == [(0, ROWS)]
    writer.commit()
    assert count_numbers(path) == [(1, ROWS)]


def test_a_database_that_became_smaller_is_copied(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("delete from facts where id > 1")
    writer.commit()
    writer.execute("vacuum")
    assert count_numbers(path) == [(0, 1)]


def test_a_log_that_was_restarted_is_copied(path: Path, writer: sqlite3.Connection) -> None:
    """The frames of the earlier log are still behind the new ones."""
    writer.execute("update facts set number = 1, text = hex(randomblob(2000))")
    writer.commit()
    writer.execute("pragma wal_checkpoint(restart)")
    assert count_numbers(path) == [(1, ROWS)]
    writer.execute("update facts set number = 2 where id <= 100")
    writer.commit()
    assert count_numbers(path) == [(1, 100), (2, 100)]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_without_a_log_is_copied(tmp_path: Path, mode: str) -> None:
    assert count_numbers(make_database(tmp_path / "agent.db", mode)) == [(0, ROWS)]
    empty = tmp_path / "empty.db"
    empty.touch()
    with closing(sqlite_copy.connect_copy(str(empty))) as copy:
        assert copy.execute("select * from sqlite_master").fetchall() == []


@pytest.mark.parametrize("moment", range(6))
@pytest.mark.parametrize("checkpoint", ["passive", "restart", "truncate", "beside a reader"])
def test_a_commit_between_any_two_reads_is_copied_whole_or_not_at_all(
    path: Path,
    writer: sqlite3.Connection,
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: str,
    moment: int,
) -> None:
    """The copy has all of a commit or nothing of it."""
    reader = sqlite3.connect(path, isolation_level=None)
    writer.execute("update facts set number = 1 where id <= 100")
    writer.commit()
    read_head, count = files.read_head, 0

    def commit_and_read(name: str, length: int) -> files.Piece:
        nonlocal count
        count += 1
        if count == moment + 1:
            writer.execute("update facts set number = 2")
            writer.commit()
            if checkpoint == "beside a reader":  # then the log is not restarted
                reader.execute("begin").execute("select * from facts").fetchall()
                writer.execute("pragma wal_checkpoint(passive)")
            else:
                writer.execute(f"pragma wal_checkpoint({checkpoint})")
            writer.execute("update facts set number = 3 where id = 1")
            writer.commit()
        return read_head(name, length)

    monkeypatch.setattr(files, "read_head", commit_and_read)
    assert count_numbers(path) in ([(0, 100), (1, 100)], [(2, ROWS - 1), (3, 1)])
    assert count > moment or moment > 4, "nothing was read at that moment"
    reader.close()


def test_every_copy_beside_a_busy_writer_is_one_of_its_states(path: Path) -> None:
    """Meanwhile the log is restarted hundreds of times, and pages move while we read them."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    try:
        states: list[int] = []

        def copy_once() -> bool:
            try:
                counts = count_numbers(path)
            except Temporary:
                return False
            assert len(counts) == 1, f"a mixture of commits: {counts}"
            assert counts[0][1] == ROWS
            states.append(counts[0][0])
            return len(states) >= 100 and states[-1] > 200

        until(copy_once, "a hundred copies")
        assert states == sorted(states), "an earlier state after a later one"
    finally:
        writer.kill()
        writer.wait()


def test_a_copy_writes_nothing(path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("update facts set number = 1")
    writer.commit()
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in path.parent.iterdir()}
    with closing(sqlite_copy.connect_copy(str(path))) as copy:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            copy.execute("update facts set number = 7")
        copy.execute("select * from facts").fetchall()
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in path.parent.iterdir()} == before


def test_a_database_written_all_the_time_is_a_temporary_error(
    path: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.execute("update facts set number = 1")
    writer.commit()
    read_head, count = files.read_head, 0

    def write_and_read(name: str, length: int) -> files.Piece:
        nonlocal count
        if name.endswith("-wal"):
            count += 1
            writer.execute("pragma wal_checkpoint(truncate)")
            writer.execute("update facts set number = ?", (count + 1,))
            writer.commit()
        return read_head(name, length)

    monkeypatch.setattr(files, "read_head", write_and_read)
    with pytest.raises(Temporary, match="written all the time"):
        sqlite_copy.copy_database(str(path))
    assert count == sqlite_copy.ATTEMPTS


def test_a_rollback_journal_is_a_temporary_error(tmp_path: Path) -> None:
    path = make_database(tmp_path / "agent.db", "delete")
    Path(f"{path}-journal").write_bytes(b"hot")
    with pytest.raises(Temporary):
        sqlite_copy.copy_database(str(path))


def test_a_log_without_an_index_is_not_read(path: Path, writer: sqlite3.Connection) -> None:
    """Only its index says where the log ends."""
    writer.execute("update facts set number = 1")
    writer.commit()
    Path(f"{path}-shm").unlink()
    with pytest.raises(Unsupported, match="no index"):
        sqlite_copy.copy_database(str(path))


@pytest.mark.parametrize("part", ["-wal", "-shm"])
def test_a_log_that_does_not_fit_is_not_read(path: Path, writer: sqlite3.Connection, part: str) -> None:
    writer.execute("update facts set number = 1")
    writer.commit()
    damaged = Path(f"{path}{part}")
    data = bytearray(damaged.read_bytes())
    data[24 if part == "-shm" else -4096 - 8] ^= 0xFF
    if part == "-shm":
        data[48 + 24] ^= 0xFF  # both copies alike
    damaged.write_bytes(data)
    with pytest.raises(SourceError):
        sqlite_copy.copy_database(str(path))


def test_a_database_that_is_too_large_is_unsupported(path: Path) -> None:
    os.truncate(path, sqlite_copy.MOST + 1)
    with pytest.raises(Unsupported, match="in another mount namespace, too large to copy"):
        sqlite_copy.copy_database(str(path))


def test_an_absent_file_is_gone_and_rubbish_is_malformed(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        sqlite_copy.connect_copy(str(tmp_path / "none.db"))
    rubbish = tmp_path / "rubbish.db"
    rubbish.write_bytes(b"this is no database" * 500)
    with (
        pytest.raises((Malformed, sqlite3.DatabaseError)),
        closing(sqlite_copy.connect_copy(str(rubbish))) as copy,
    ):
        copy.execute("select * from facts")
