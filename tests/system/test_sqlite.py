"""Other programs' databases: the latest rows, no harm, and an answer for every trouble."""

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
from agentctl.system.sqlite import Database, is_elsewhere, stamp
from agentctl.truth.look import Look
from agentctl.truth.warm import Warm
from tests.fakes.container import unshare
from tests.waiting import until

SCHEMA = "create table session (id text, at integer)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make(tmp_path / "agent.db")


def make(path: Path, mode: str = "wal") -> Path:
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


def ids(path: Path) -> list[str]:
    with Database(str(path)) as database:
        return [row[0] for row in database.rows("select id from session order by at")]


def test_rows_that_are_only_in_the_log_are_seen(path: Path, writer: sqlite3.Connection) -> None:
    main = path.read_bytes()
    writer.execute("insert into session values ('latest', 2)")
    writer.commit()
    assert path.read_bytes() == main, "the row was to be in the log alone"
    assert ids(path) == ["first", "latest"]
    assert path.read_bytes() == main, "a reader must not checkpoint"


def test_an_open_transaction_is_not_seen_and_not_waited_for(
    path: Path, writer: sqlite3.Connection
) -> None:
    writer.execute("begin immediate")
    writer.execute("insert into session values ('not yet', 2)")
    assert ids(path) == ["first"]
    writer.rollback()


def test_a_writer_that_locks_everybody_out_is_an_answer(tmp_path: Path) -> None:
    path = make(tmp_path / "old.db", "delete")
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("begin exclusive")
        with pytest.raises(SourceError, match="locked"):
            ids(path)
        holder.rollback()
    assert ids(path) == ["first"]


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    path = make(tmp_path / "old.db", "delete")
    with closing(sqlite3.connect(path, check_same_thread=False)) as holder:
        holder.execute("begin exclusive")
        end = threading.Timer(0.05, holder.rollback)
        end.start()
        try:
            assert ids(path) == ["first"]
        finally:
            end.join()


def test_it_cannot_write(path: Path) -> None:
    with Database(str(path)) as database, pytest.raises(Forbidden):
        database.rows("insert into session values ('ours', 3)")
    assert ids(path) == ["first"]


def test_missing_is_gone_and_is_not_made(tmp_path: Path) -> None:
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
        ids(path)


def test_a_page_of_rubbish_inside_is_malformed(tmp_path: Path) -> None:
    path = make(tmp_path / "agent.db", "delete")
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(Malformed):
        ids(path)


def test_an_empty_file_or_another_schema_is_unsupported(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(Unsupported):
        ids(empty)
    other = make(tmp_path / "other.db")
    with Database(str(other)) as database, pytest.raises(Unsupported, match="schema we do not know"):
        database.rows("select colour from session")


def test_text_that_is_no_utf8_costs_itself_alone(path: Path, writer: sqlite3.Connection) -> None:
    before = ids(path)
    writer.execute("insert into session values (cast(x'ff61' as text), 9)")
    writer.commit()
    assert sorted(ids(path)) == sorted([*before, "\ufffda"])


def test_what_is_no_regular_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.db")
    for name in ("fifo.db", "."):
        with pytest.raises(Malformed):
            Database(str(tmp_path / name))


@pytest.mark.parametrize(
    "name", ["a?mode=rwc", "a#b", "a%41", "50%", "a b", "a&b=c", "ä€", "'\"", ":memory:"]
)
def test_a_path_of_any_characters(tmp_path: Path, name: str) -> None:
    directory = tmp_path / name
    directory.mkdir()
    path = make(directory / f"{name}.db")
    assert ids(path) == ["first"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_a_path_that_is_no_utf8(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(directory)
    made = make(tmp_path / "made.db", "delete")
    os.rename(made, directory + b"/agent.db")
    assert ids(Path(os.fsdecode(directory + b"/agent.db"))) == ["first"]


def test_columns(path: Path) -> None:
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
    made = Inside(path)
    yield made
    made.process.communicate()


def test_the_file_at_the_path_is_read_and_no_other_of_that_name(path: Path, inside: Inside) -> None:
    assert ids(inside.path) == ["theirs"]
    assert ids(path) == ["first"]
    path.unlink()
    assert ids(inside.path) == ["theirs"]


def test_a_path_that_leads_to_our_own_file_is_opened(path: Path) -> None:
    ours = f"/proc/{os.getpid()}/root{path}"
    assert not is_elsewhere(ours)
    assert ids(Path(ours)) == ["first"]


def test_a_stamp_of_what_is_elsewhere_changes_with_each_commit(inside: Inside) -> None:
    before = stamp(str(inside.path))
    assert before is not None
    assert ids(inside.path) == ["theirs"]
    assert stamp(str(inside.path)) == before
    inside.add("more")
    assert stamp(str(inside.path)) != before
    assert ids(inside.path) == ["theirs", "more"]


def test_a_copy_is_made_again_only_when_somebody_has_written(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon looks again and again."""
    copies, snapshot = 0, sqlite_copy.snapshot

    def counted(path: str) -> bytearray:
        nonlocal copies
        copies += 1
        return snapshot(path)

    monkeypatch.setattr(sqlite_copy, "snapshot", counted)
    look = Look({}, {}, time.time(), warm=Warm())

    def rows() -> list[str]:
        with look.database(str(inside.path)) as database:
            return [row[0] for row in database.rows("select id from session order by at")]

    def settled() -> bool:
        found = stamp(str(inside.path))
        return found is not None and clock.settled(found[1])

    for expected in (["theirs"], ["theirs", "more"]):
        until(settled, "what was written is older than the grain of its time")
        copies = 0
        assert [rows() for _ in range(5)] == [expected] * 5
        assert copies == 1
        inside.add("more")


def test_no_file_of_theirs_stays_open(inside: Inside) -> None:
    """It would keep their disk busy when they are gone."""
    ours = proc.read_process(os.getpid(), proc.boot_id())
    with Database(str(inside.path)) as database:
        database.rows("select * from session")
        stamp(str(inside.path))
        assert not [path for path in ours.open_files() if "agent.db" in path]


# the stamp


def test_a_stamp_is_the_same_until_somebody_commits(path: Path, writer: sqlite3.Connection) -> None:
    ids(path)
    before = stamp(str(path))
    assert before is not None
    ids(path)
    assert stamp(str(path)) == before
    for number in range(3):
        writer.execute("update session set at = ?", (number,))
        writer.commit()
        after = stamp(str(path))
        assert after is not None
        assert after[0] != before[0]
        before = after
    writer.execute("pragma wal_checkpoint(truncate)")
    assert stamp(str(path)) != before


def test_a_stamp_without_a_log(tmp_path: Path) -> None:
    path = make(tmp_path / "agent.db", "delete")
    before = stamp(str(path))
    assert stamp(str(path)) == before
    os.utime(path, ns=(0, 10**18))
    after = stamp(str(path))
    assert after is not None
    assert after[1] == 1e9
    assert after != before


def test_a_commit_that_no_time_tells_of(path: Path, writer: sqlite3.Connection) -> None:
    """The log was written, and its index says so only later."""
    writer.execute("update session set at = 2")
    writer.commit()
    before = stamp(str(path))
    with open(f"{path}-shm", "r+b") as index:
        index.seek(16)  # the number of valid frames
        index.write(b"\7")
    assert stamp(str(path)) != before


def test_what_cannot_be_told_has_no_stamp(tmp_path: Path) -> None:
    path = make(tmp_path / "agent.db", "delete")
    loop = Path(f"{path}-wal")
    loop.symlink_to(loop)
    assert stamp(str(path)) is None


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


@pytest.mark.parametrize("closed", ["agent.db", "."])
def test_what_may_not_be_read_is_forbidden(path: Path, closed: str) -> None:
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    target = path.parent / closed
    target.chmod(0)
    try:
        done = subprocess.run(
            [*without, sys.executable, "-c", FORBIDDEN, str(path)],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        target.chmod(0o700)
    if done.returncode == 127 or b"setpriv" in done.stderr:
        pytest.skip(f"root reads everything, and setpriv(1) does not help: {done.stderr.decode()}")
    assert done.stdout.decode() == "forbidden\n", done.stderr.decode()


def test_a_log_where_nothing_may_be_written_is_an_answer(path: Path) -> None:
    """A WAL database without its shared memory, in a directory that is not ours to write."""
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    path.parent.chmod(0o500)
    try:
        done = subprocess.run(
            [*without, sys.executable, "-c", FORBIDDEN, str(path)],
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        path.parent.chmod(0o700)
    assert done.stdout.decode() in ("forbidden\n", "[('first',)]\n"), done.stderr.decode()


def test_a_look_ends_no_lock_of_another_thread(path: Path) -> None:
    """POSIX: who closes any descriptor of a file ends all of this process's locks on it. Another process
    would then take itself for the last one, and remove the log under us."""
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("pragma journal_mode = wal")
    held.execute("create table more (x)")
    with Database(str(path)) as database:
        database.rows("select * from more")
    stamp(str(path))
    other = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select * from more')"
    subprocess.run([sys.executable, "-c", other, str(path)], check=True)
    assert Path(f"{path}-wal").exists()
    held.execute("insert into more values (1)")
    held.close()
