"""Other programs' databases: the latest rows, no harm, and an error of ours for every fault."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctl.errors import Forbidden, Gone, Malformed, SourceError, Unsupported
from agentctl.system import clock, proc, sqlite_copy
from agentctl.system.sqlite import Database, is_elsewhere, read_stamp
from agentctl.truth.look import Look
from agentctl.truth.memory import Memory
from tests.fakes.container import unshare
from tests.waiting import until

SCHEMA = "create table session (id text, at integer)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_database(tmp_path / "agent.db")


def make_database(path: Path, mode: str = "wal") -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma journal_mode = {mode}")
        connection.execute(SCHEMA)
        connection.execute("insert into session values ('first', 1)")
        connection.commit()
    return path


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """The agent, which has the database open all the time and never checkpoints."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_autocheckpoint = 0")
        yield connection


def read_ids(path: Path) -> list[str]:
    with Database(str(path)) as database:
        return [row[0] for row in database.rows("select id from session order by at")]


def test_rows_in_the_log_are_read(path: Path, writer: sqlite3.Connection) -> None:
    main = path.read_bytes()
    writer.execute("insert into session values ('latest', 2)")
    writer.commit()
    assert path.read_bytes() == main, "the row must be only in the log"
    assert read_ids(path) == ["first", "latest"]
    assert path.read_bytes() == main, "a reader must not checkpoint"


def test_an_open_transaction_is_not_read_and_not_waited_for(
    path: Path, writer: sqlite3.Connection
) -> None:
    writer.execute("begin immediate")
    writer.execute("insert into session values ('not yet', 2)")
    assert read_ids(path) == ["first"]
    writer.rollback()


def test_an_exclusive_lock_is_an_error(tmp_path: Path) -> None:
    path = make_database(tmp_path / "old.db", "delete")
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("begin exclusive")
        with pytest.raises(SourceError, match="locked"):
            read_ids(path)
        holder.rollback()
    assert read_ids(path) == ["first"]


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    path = make_database(tmp_path / "old.db", "delete")
    with closing(sqlite3.connect(path, check_same_thread=False)) as holder:
        holder.execute("begin exclusive")
        end = threading.Timer(0.05, holder.rollback)
        end.start()
        try:
            assert read_ids(path) == ["first"]
        finally:
            end.join()


def test_a_write_is_forbidden(path: Path) -> None:
    with Database(str(path)) as database, pytest.raises(Forbidden):
        database.rows("insert into session values ('ours', 3)")
    assert read_ids(path) == ["first"]


def test_a_missing_database_is_gone_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        Database(str(tmp_path / "none.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data", [b"this is no database, by its look" * 200, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_rubbish_is_malformed(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(data)
    with pytest.raises(Malformed):
        read_ids(path)


def test_a_page_of_rubbish_inside_is_malformed(tmp_path: Path) -> None:
    path = make_database(tmp_path / "agent.db", "delete")
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(Malformed):
        read_ids(path)


def test_an_empty_file_or_another_schema_is_unsupported(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(Unsupported):
        read_ids(empty)
    other = make_database(tmp_path / "other.db")
    with Database(str(other)) as database, pytest.raises(Unsupported, match="schema we do not know"):
        database.rows("select colour from session")


def test_text_that_is_no_utf8_costs_only_itself(path: Path, writer: sqlite3.Connection) -> None:
    before = read_ids(path)
    writer.execute("insert into session values (cast(x'ff61' as text), 9)")
    writer.commit()
    assert sorted(read_ids(path)) == sorted([*before, "\ufffda"])


def test_a_file_that_is_not_regular_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.db")
    for name in ("fifo.db", "."):
        with pytest.raises(Malformed):
            Database(str(tmp_path / name))


@pytest.mark.parametrize(
    "name", ["a?mode=rwc", "a#b", "a%41", "50%", "a b", "a&b=c", "ä€", "'\"", ":memory:"]
)
def test_a_path_may_have_any_characters(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    path = make_database(directory / f"{name}.db")
    assert read_ids(path) == ["first"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_a_path_need_not_be_utf8(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(directory)
    database = make_database(tmp_path / "made.db", "delete")
    os.rename(database, directory + b"/agent.db")
    assert read_ids(Path(os.fsdecode(directory + b"/agent.db"))) == ["first"]


def test_the_columns_of_a_table_are_listed(path: Path) -> None:
    with Database(str(path)) as database:
        assert database.columns("session") == {"id", "at"}
        assert database.columns("nothing") == frozenset()


# in another mount namespace


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma journal_mode = wal")
connection.execute("create table session (id text, at integer)")
for number, line in enumerate(sys.stdin):
    connection.execute("insert into session values (?, ?)", (line.strip(), number))
    print(flush=True)
"""


class Inside:
    """A process in a mount namespace of its own, in which another database has our database's path."""

    def __init__(self, path: Path) -> None:
        script = f'mount -t tmpfs none {path.parent} && exec "$0" -c "$1" "$2"'
        self.process = subprocess.Popen(
            [*unshare(pids=False), "sh", "-c", script, sys.executable, WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.path = Path(f"/proc/{self.process.pid}/root{path}")
        self.add("theirs")

    def add(self, row: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(row.encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"\n"


@pytest.fixture
def inside(path: Path) -> Iterator[Inside]:
    inside = Inside(path)
    yield inside
    inside.process.communicate()


def test_a_database_of_the_same_path_outside_is_not_read(path: Path, inside: Inside) -> None:
    assert read_ids(inside.path) == ["theirs"]
    assert read_ids(path) == ["first"]
    path.unlink()
    assert read_ids(inside.path) == ["theirs"]


def test_a_path_that_leads_to_our_own_file_is_opened(path: Path) -> None:
    ours = f"/proc/{os.getpid()}/root{path}"
    assert not is_elsewhere(ours)
    assert read_ids(Path(ours)) == ["first"]


def test_a_stamp_of_a_database_elsewhere_changes_with_each_commit(inside: Inside) -> None:
    before = read_stamp(str(inside.path))
    assert before is not None
    assert read_ids(inside.path) == ["theirs"]
    assert read_stamp(str(inside.path)) == before
    inside.add("more")
    assert read_stamp(str(inside.path)) != before
    assert read_ids(inside.path) == ["theirs", "more"]


@pytest.mark.slow
def test_a_copy_is_made_again_only_after_a_write(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon looks again and again."""
    copies, copy_database = 0, sqlite_copy.copy_database

    def count_copy(path: str) -> bytearray:
        nonlocal copies
        copies += 1
        return copy_database(path)

    monkeypatch.setattr(sqlite_copy, "copy_database", count_copy)
    look = Look({}, {}, time.time(), memory=Memory())

    def read_rows() -> list[str]:
        with look.open_database(str(inside.path)) as database:
            return [row[0] for row in database.rows("select id from session order by at")]

    def is_settled() -> bool:
        stamp = read_stamp(str(inside.path))
        return stamp is not None and clock.is_settled(stamp[1])

    for expected in (["theirs"], ["theirs", "more"]):
        until(is_settled, "the write is older than the grain of its time")
        copies = 0
        assert [read_rows() for _ in range(5)] == [expected] * 5
        assert copies == 1
        inside.add("more")


def test_no_file_of_theirs_stays_open(inside: Inside) -> None:
    """It would keep their file system busy after they end."""
    ours = proc.read_process(os.getpid(), proc.read_boot_id())
    with Database(str(inside.path)) as database:
        database.rows("select * from session")
        read_stamp(str(inside.path))
        assert not [path for path in ours.list_open_files() if "agent.db" in path]


# the stamp


def test_a_stamp_changes_with_each_commit_only(path: Path, writer: sqlite3.Connection) -> None:
    read_ids(path)
    before = read_stamp(str(path))
    assert before is not None
    read_ids(path)
    assert read_stamp(str(path)) == before
    for number in range(3):
        writer.execute("update session set at = ?", (number,))
        writer.commit()
        after = read_stamp(str(path))
        assert after is not None
        assert after[0] != before[0]
        before = after
    writer.execute("pragma wal_checkpoint(truncate)")
    assert read_stamp(str(path)) != before


def test_a_stamp_without_a_log_is_the_time_of_the_file(tmp_path: Path) -> None:
    path = make_database(tmp_path / "agent.db", "delete")
    before = read_stamp(str(path))
    assert read_stamp(str(path)) == before
    os.utime(path, ns=(0, 10**18))
    after = read_stamp(str(path))
    assert after is not None
    assert after[1] == 1e9
    assert after != before


def test_a_commit_without_a_new_time_changes_the_stamp(path: Path, writer: sqlite3.Connection) -> None:
    """The log is written first, and its index shows that only later."""
    writer.execute("update session set at = 2")
    writer.commit()
    before = read_stamp(str(path))
    with open(f"{path}-shm", "r+b") as index:
        index.seek(16)  # the number of valid frames
        index.write(b"\7")
    assert read_stamp(str(path)) != before


def test_an_unreadable_log_has_no_stamp(tmp_path: Path) -> None:
    path = make_database(tmp_path / "agent.db", "delete")
    loop = Path(f"{path}-wal")
    loop.symlink_to(loop)
    assert read_stamp(str(path)) is None


FORBIDDEN = """
import sys
from agentctl.errors import SourceError
from agentctl.system.sqlite import Database
try:
    with Database(sys.argv[1]) as database:
        print(database.rows("select id from session"))
except SourceError as error:
    print(error.kind)
"""


def read_without_privilege(path: Path) -> "subprocess.CompletedProcess[bytes]":
    """Read the database in a process that may not read everything. Skip where root cannot drop this."""
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    run = subprocess.run(
        [*without, sys.executable, "-c", FORBIDDEN, str(path)],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    if run.returncode == 127 or b"setpriv" in run.stderr:
        pytest.skip(f"root reads everything, and setpriv(1) does not help: {run.stderr.decode()}")
    return run


@pytest.mark.parametrize("closed", ["agent.db", "."])
def test_a_database_without_permission_is_forbidden(path: Path, closed: str) -> None:
    target = path.parent / closed
    target.chmod(0)
    try:
        run = read_without_privilege(path)
    finally:
        target.chmod(0o700)
    assert run.stdout.decode() == "forbidden\n", run.stderr.decode()


def test_a_database_in_a_read_only_directory_is_read_or_forbidden(path: Path) -> None:
    """The database is in WAL mode, without shared memory, in a directory that we may not write to."""
    path.parent.chmod(0o500)
    try:
        run = read_without_privilege(path)
    finally:
        path.parent.chmod(0o700)
    assert run.stdout.decode() in ("forbidden\n", "[('first',)]\n"), run.stderr.decode()


def test_a_look_ends_no_lock_of_another_thread(path: Path) -> None:
    """POSIX: to close any descriptor of a file ends all locks of this process on it. Another process
    would then be the last one, and remove the log under us."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table more (x)")
    with Database(str(path)) as database:
        database.rows("select * from more")
    read_stamp(str(path))
    other = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select * from more')"
    subprocess.run([sys.executable, "-c", other, str(path)], check=True)
    assert Path(f"{path}-wal").exists()
    connection.execute("insert into more values (1)")
    connection.close()
