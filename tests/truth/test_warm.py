"""What may be remembered between two looks, and how little it takes to forget it."""

import gc
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentctl.errors import Exhausted, Gone
from agentctl.system import clock, proc, proc_entry, sqlite
from agentctl.system.proc import Process
from agentctl.truth import warm as memory
from agentctl.truth.look import Look
from agentctl.truth.warm import Warm, is_random
from tests.waiting import until

CHANGES = """
import os, sys
print("ready", flush=True)
after = "print('ready', flush=True); input()"
for line in sys.stdin:
    os.execve(sys.executable, [sys.executable, "-c", after], {"A": "new"})
"""


@pytest.fixture
def warm() -> Warm:
    return Warm()


@pytest.fixture
def look(warm: Warm) -> Look:
    return Look({}, {}, time.time(), warm=warm)


class Reader:
    """Counts how often it was asked to read."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path: str, _: Look) -> str:
        self.count += 1
        return Path(path).read_text()


def old(path: Path) -> Path:
    """Once it is older than the grain of its time stamps."""
    until(lambda: path.stat().st_ctime < time.time() - clock.GRAIN, f"{path} is old enough")
    return path


# files


def test_a_file_is_read_once(look: Look, tmp_path: Path) -> None:
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    old(path)
    assert [look.read(str(path), read) for _ in range(3)] == ["one"] * 3
    assert read.count == 1


def test_what_has_just_been_written_is_not_remembered(look: Look, tmp_path: Path) -> None:
    """It may be written again at the same moment, as its time stamps tell it."""
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    assert [look.read(str(path), read) for _ in range(2)] == ["one"] * 2
    assert read.count == 2


def _rewrite(path: Path) -> None:
    path.write_text("two")


def _rewrite_and_hide_it(path: Path) -> None:
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    before, other = path.stat(), path.with_suffix(".new")
    other.write_text("two")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)


@pytest.mark.parametrize("change", [_rewrite, _rewrite_and_hide_it, _replace])
def test_the_same_size_is_not_the_same_file(
    look: Look, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    assert look.read(str(old(path)), read) == "one"
    change(path)
    assert look.read(str(path), read) == "two"
    assert look.read(str(old(path)), read) == "two"


def test_a_file_that_is_gone_is_gone(look: Look, tmp_path: Path) -> None:
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    look.read(str(old(path)), read)
    path.unlink()
    with pytest.raises(Gone):
        look.read(str(path), read)


def test_what_has_a_problem_is_told_each_time(look: Look, tmp_path: Path) -> None:
    def read(path: str, look: Look) -> str:
        look.problem("malformed", "odd", path)
        return "odd"

    path = tmp_path / "file"
    path.write_text("one")
    look.read(str(old(path)), read)
    again = look.scoped("demo")
    again.read(str(path), read)
    assert [problem.message for problem in again.problems] == ["odd"]


def test_two_readers_find_different_things(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    old(path)
    for _ in range(2):
        assert look.read(str(path), lambda path, _: Path(path).read_text()) == "one"
        assert look.read(str(path), _size) == 3


def _size(path: str, _: Look) -> int:
    return len(Path(path).read_text())


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    warm = Warm(most=3)
    look = Look({}, {}, time.time(), warm=warm)
    paths = [tmp_path / str(number) for number in range(5)]
    for path in paths:
        path.write_text("one")
    for path in paths:
        look.read(str(old(path)), _size)
    assert len(warm) == 3


def test_without_memory_each_look_reads(tmp_path: Path) -> None:
    path, read, look = tmp_path / "file", Reader(), Look({}, {}, time.time())
    path.write_text("one")
    old(path)
    assert [look.read(str(path), read) for _ in range(3)] == ["one"] * 3
    assert read.count == 3


# databases


def test_a_database_is_asked_again_when_it_says_something_else(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("create table t (x)")
        writer.execute("insert into t values (1)")
        writer.commit()
        for expected in (1, 2, 3):
            until(lambda: _settled(path), "the database is old enough")
            for _ in range(2):
                with look.database(str(path)) as db:
                    assert db.rows("select x from t") == [(expected,)]
            writer.execute("update t set x = x + 1")
            writer.commit()
            with look.database(str(path)) as db:
                assert db.rows("select x from t") == [(expected + 1,)]


def test_nor_is_an_older_answer_taken_for_the_newer(look: Look, tmp_path: Path) -> None:
    """Nobody asked while it was young."""
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("create table t (x)")
        writer.commit()
        nothing: list[tuple[int]] = []
        for expected in (nothing, [(7,)]):
            writer.executemany("insert into t values (?)", expected)
            writer.commit()
            until(lambda: _settled(path), "the database is old enough")
            with look.database(str(path)) as db:
                assert db.rows("select x from t") == expected


def _settled(path: Path) -> bool:
    stamp = sqlite.stamp(str(path))
    return stamp is not None and stamp[1] < time.time() - clock.GRAIN


def test_what_a_database_said_is_not_asked_again(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("create table t (x)")
        writer.commit()
    until(lambda: _settled(path), "the database is old enough")
    with look.database(str(path)) as db:
        assert db.rows("select x from t") == []
    with look.database(str(path)) as db:
        assert db.rows("select x from t") == []
        assert db._connection is None


# processes


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", CHANGES],
        env={"A": "old"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as made:
        assert made.stdout is not None
        made.stdout.readline()
        yield made
        made.kill()


def seen(warm: Warm, child: subprocess.Popen[bytes]) -> Process:
    return warm.read_table()[child.pid]


def test_a_process_is_as_without_memory(warm: Warm, child: subprocess.Popen[bytes]) -> None:
    for _ in range(3):
        found, plain = seen(warm, child), proc.read_process(child.pid, proc.boot_id())
        for name in ("identity", "parent", "comm", "argv", "exe", "cwd", "uid", "mounts", "namespace"):
            assert getattr(found, name) == getattr(plain, name), name
        assert (found.environ(), found.inner_pid()) == (plain.environ(), plain.inner_pid())
        assert found.open_files() == plain.open_files()


def test_without_a_descriptor_there_is_no_table(
    warm: Warm, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = proc_entry.read_stat

    def refusing(pid: int) -> bytes:
        if pid == child.pid:
            raise Exhausted(f"proc:{pid}", "too many open files")
        return read(pid)

    monkeypatch.setattr(memory, "read_stat", refusing)
    with pytest.raises(Exhausted):
        warm.read_table()


def test_an_exec_is_seen_at_once(warm: Warm, child: subprocess.Popen[bytes]) -> None:
    before = seen(warm, child)
    assert before.environ() == {"A": "old"}
    assert "execve" in before.argv[2]
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    child.stdout.readline()
    after = seen(warm, child)
    assert after.identity == before.identity
    assert after.environ()["A"] == "new"
    assert "input" in after.argv[2]


def test_the_dead_and_the_unburied_are_seen_at_once(warm: Warm, child: subprocess.Popen[bytes]) -> None:
    found = seen(warm, child)
    assert (found.alive, found.environ()) == (True, {"A": "old"})
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not seen(warm, child).alive
    child.wait()
    assert child.pid not in warm.read_table()
    with pytest.raises(Gone):
        _ = found.argv


def test_a_directory_is_held_open_and_given_back(child: subprocess.Popen[bytes]) -> None:
    def mine() -> list[str]:
        links = proc.read_process(os.getpid(), proc.boot_id()).open_files()
        return [link for link in links if link.startswith(f"/proc/{child.pid}")]

    warm = Warm()
    assert seen(warm, child).argv
    assert seen(warm, child).argv
    assert sorted(mine()) == [
        f"/proc/{child.pid}",
        *(f"/proc/{child.pid}/{n}" for n in ("cmdline", "stat")),
    ]
    child.kill()
    child.wait()
    warm.read_table()
    gc.collect()
    assert mine() == []


def test_no_more_is_held_than_we_can_afford(child: subprocess.Popen[bytes]) -> None:
    warm = Warm(held=0)
    assert seen(warm, child).argv == proc.read_process(child.pid, proc.boot_id()).argv
    assert not isinstance(seen(warm, child).entry(), memory.Held)


def test_where_a_program_lies_at_the_same_place_each_time_nothing_is_kept() -> None:
    """`setarch -R`: all that tells one exec from another is then its arguments' length."""
    assert not is_random(b"1 2 3 4 %d" % 0x7FFFFFFFEFD0)
    assert is_random(b"1 2 3 4 %d" % 0x7FFC12345FD0)
    assert not is_random(b"0 0 0 0 0")
    assert not is_random(b"")
