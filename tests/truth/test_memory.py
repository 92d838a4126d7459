"""What may be remembered between two looks, and when it is forgotten."""

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
from agentctl.system import clock, proc, procfs, sqlite
from agentctl.system.proc import Process
from agentctl.truth import memory as module
from agentctl.truth.look import Look
from agentctl.truth.memory import Memory, is_random
from tests.waiting import until

CHANGES = """
import os, sys
print("ready", flush=True)
after = "print('ready', flush=True); input()"
for line in sys.stdin:
    os.execve(sys.executable, [sys.executable, "-c", after], {"A": "new"})
"""

# Its second thread makes the process another program.
THREADS = """
import os, sys, threading
def second():
    open("/proc/thread-self/comm", "w").write("second")
    print("ready", flush=True)
    input()
    os.execv(sys.executable, [sys.executable, "-c", "print('ready', flush=True); input()"])
threading.Thread(target=second).start()
"""


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def look(memory: Memory) -> Look:
    return Look({}, {}, time.time(), memory=memory)


class Reader:
    """A reader that counts its calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path: str, _: Look) -> str:
        self.count += 1
        return Path(path).read_text()


def wait_until_old(path: Path) -> Path:
    """Wait until the file is older than the grain of its time stamps."""
    until(lambda: path.stat().st_ctime < time.time() - clock.GRAIN, f"{path} is old enough")
    return path


# files


def test_a_file_is_read_once(look: Look, tmp_path: Path) -> None:
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    wait_until_old(path)
    assert [look.read_file(str(path), read) for _ in range(3)] == ["one"] * 3
    assert read.count == 1


def test_a_file_written_just_now_is_not_remembered(look: Look, tmp_path: Path) -> None:
    """It may be written again within the grain of its time stamps."""
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    assert [look.read_file(str(path), read) for _ in range(2)] == ["one"] * 2
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
@pytest.mark.slow
def test_a_change_in_the_same_size_is_read(
    look: Look, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    assert look.read_file(str(wait_until_old(path)), read) == "one"
    change(path)
    assert look.read_file(str(path), read) == "two"
    assert look.read_file(str(wait_until_old(path)), read) == "two"


def test_a_deleted_file_raises_gone(look: Look, tmp_path: Path) -> None:
    path, read = tmp_path / "file", Reader()
    path.write_text("one")
    look.read_file(str(wait_until_old(path)), read)
    path.unlink()
    with pytest.raises(Gone):
        look.read_file(str(path), read)


def test_a_file_with_a_problem_is_read_and_reported_each_time(look: Look, tmp_path: Path) -> None:
    def read(path: str, look: Look) -> str:
        look.report_problem("malformed", "odd", path)
        return "odd"

    path = tmp_path / "file"
    path.write_text("one")
    look.read_file(str(wait_until_old(path)), read)
    again = look.scope_to("demo")
    again.read_file(str(path), read)
    assert [problem.message for problem in again.problems] == ["odd"]


def test_each_reader_has_its_own_result(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    wait_until_old(path)
    for _ in range(2):
        assert look.read_file(str(path), lambda path, _: Path(path).read_text()) == "one"
        assert look.read_file(str(path), _size) == 3


def _size(path: str, _: Look) -> int:
    return len(Path(path).read_text())


def test_the_number_of_files_is_limited(tmp_path: Path) -> None:
    memory = Memory(most_files=3)
    look = Look({}, {}, time.time(), memory=memory)
    paths = [tmp_path / str(number) for number in range(5)]
    for path in paths:
        path.write_text("one")
    for path in paths:
        look.read_file(str(wait_until_old(path)), _size)
    assert len(memory) == 3


def test_without_memory_each_look_reads(tmp_path: Path) -> None:
    path, read, look = tmp_path / "file", Reader(), Look({}, {}, time.time())
    path.write_text("one")
    wait_until_old(path)
    assert [look.read_file(str(path), read) for _ in range(3)] == ["one"] * 3
    assert read.count == 3


# databases


@pytest.mark.slow
def test_a_changed_database_is_asked_again(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("create table t (x)")
        writer.execute("insert into t values (1)")
        writer.commit()
        for expected in (1, 2, 3):
            until(lambda: _is_settled(path), "the database is old enough")
            for _ in range(2):
                with look.open_database(str(path)) as db:
                    assert db.rows("select x from t") == [(expected,)]
            writer.execute("update t set x = x + 1")
            writer.commit()
            with look.open_database(str(path)) as db:
                assert db.rows("select x from t") == [(expected + 1,)]


@pytest.mark.slow
def test_an_old_answer_is_not_used_for_a_database_changed_since(look: Look, tmp_path: Path) -> None:
    """No query came while the database was young."""
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("create table t (x)")
        writer.commit()
        nothing: list[tuple[int]] = []
        for expected in (nothing, [(7,)]):
            writer.executemany("insert into t values (?)", expected)
            writer.commit()
            until(lambda: _is_settled(path), "the database is old enough")
            with look.open_database(str(path)) as db:
                assert db.rows("select x from t") == expected


def _is_settled(path: Path) -> bool:
    stamp = sqlite.read_stamp(str(path))
    return stamp is not None and stamp[1] < time.time() - clock.GRAIN


def test_an_unchanged_database_is_not_asked_again(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("create table t (x)")
        writer.commit()
    until(lambda: _is_settled(path), "the database is old enough")
    with look.open_database(str(path)) as db:
        assert db.rows("select x from t") == []
    with look.open_database(str(path)) as db:
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
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def read_child(memory: Memory, child: subprocess.Popen[bytes]) -> Process:
    return memory.read_table()[child.pid]


def test_a_process_is_the_same_with_and_without_memory(
    memory: Memory, child: subprocess.Popen[bytes]
) -> None:
    for _ in range(3):
        remembered, plain = (
            read_child(memory, child),
            proc.read_process(child.pid, proc.read_boot_id()),
        )
        for name in ("identity", "parent", "comm", "argv", "exe", "cwd", "uid", "pid_namespace"):
            assert getattr(remembered, name) == getattr(plain, name), name
        assert (remembered.environ(), remembered.read_inner_pid()) == (
            plain.environ(),
            plain.read_inner_pid(),
        )
        assert remembered.list_open_files() == plain.list_open_files()


def test_without_a_descriptor_there_is_no_table(
    memory: Memory, child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = procfs.read_stat

    def refuse_child(pid: int) -> bytes:
        if pid == child.pid:
            raise Exhausted(f"proc:{pid}", "too many open files")
        return read(pid)

    monkeypatch.setattr(module, "read_stat", refuse_child)
    with pytest.raises(Exhausted):
        memory.read_table()


def test_an_exec_is_seen_at_once(memory: Memory, child: subprocess.Popen[bytes]) -> None:
    before = read_child(memory, child)
    assert before.environ() == {"A": "old"}
    assert "execve" in before.argv[2]
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"\n")
    child.stdin.flush()
    child.stdout.readline()
    after = read_child(memory, child)
    assert after.identity == before.identity
    assert after.environ()["A"] == "new"
    assert "input" in after.argv[2]


def test_when_a_thread_began_is_kept_once_it_is_old_and_until_the_next_exec(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, read = list[int](), proc.read_threads

    def count_and_read(process: Process) -> tuple[proc.Thread, ...]:
        reads.append(process.pid)
        return read(process)

    monkeypatch.setattr(proc, "read_threads", count_and_read)
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()

        def find_start() -> int | None:
            return read_child(memory, child).find_thread_start("second")

        start = find_start()
        assert start is not None
        until(lambda: clock.read_boot_clock() - start / proc.TICKS > clock.GRAIN, "the thread is old")
        reads.clear()
        assert ([find_start(), find_start()], reads) == ([start, start], [child.pid])
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        assert find_start() is None
        child.communicate(b"\n")


def test_a_zombie_and_an_ended_process_are_seen_at_once(
    memory: Memory, child: subprocess.Popen[bytes]
) -> None:
    process = read_child(memory, child)
    assert (process.is_alive, process.environ()) == (True, {"A": "old"})
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not read_child(memory, child).is_alive
    child.wait()
    assert child.pid not in memory.read_table()
    with pytest.raises(Gone):
        _ = process.argv


def test_a_process_directory_is_held_open_and_closed(child: subprocess.Popen[bytes]) -> None:
    def mine() -> list[str]:
        links = proc.read_process(os.getpid(), proc.read_boot_id()).list_open_files()
        return [link for link in links if link.startswith(f"/proc/{child.pid}")]

    memory = Memory()
    assert read_child(memory, child).argv
    assert read_child(memory, child).argv
    assert sorted(mine()) == [
        f"/proc/{child.pid}",
        *(f"/proc/{child.pid}/{n}" for n in ("cmdline", "stat")),
    ]
    child.kill()
    child.wait()
    memory.read_table()
    gc.collect()
    assert mine() == []


def test_the_number_of_descriptors_is_limited(child: subprocess.Popen[bytes]) -> None:
    memory = Memory(most_descriptors=0)
    assert read_child(memory, child).argv == proc.read_process(child.pid, proc.read_boot_id()).argv
    assert not isinstance(read_child(memory, child).entry(), module.OpenEntry)


def test_a_layout_without_randomness_is_recognised() -> None:
    """With `setarch -R` only the length of its arguments distinguishes one exec from another."""
    assert not is_random(b"1 2 3 4 %d" % 0x7FFFFFFFEFD0)
    assert is_random(b"1 2 3 4 %d" % 0x7FFC12345FD0)
    assert not is_random(b"0 0 0 0 0")
    assert not is_random(b"")
