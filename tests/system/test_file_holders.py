"""Who holds a file, by the kernel's word."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.errors import Exhausted, Forbidden, Malformed, SourceError
from agentctl.system import file_holders, proc
from agentctl.system.proc import Process

HOLD = """
import fcntl, sys
held = open(sys.argv[1], sys.argv[2])
if sys.argv[3] == "lock":
    fcntl.flock(held, fcntl.LOCK_EX)
print("ready", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that has a file open, or locked, until the block ends."""

    def __init__(self, path: Path, mode: str, how: str = "open") -> None:
        words = [sys.executable, "-c", HOLD, str(path), mode, how]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == b"ready\n"

    def __enter__(self) -> int:
        return self.child.pid

    def __exit__(self, *_: object) -> None:
        self.child.communicate(timeout=20)


def test_who_has_locked_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.touch()
    inode = path.stat().st_ino
    assert inode not in file_holders.lock_holders()
    with Holder(path, "r+", "lock") as pid:
        assert file_holders.lock_holders()[inode] == {pid}
    with path.open("rb") as mine:
        fcntl.lockf(mine, fcntl.LOCK_SH)
        assert file_holders.lock_holders()[inode] == {os.getpid()}
    assert inode not in file_holders.lock_holders()


def test_lines_that_are_no_lock_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "locks"
    told.write_bytes(
        b"1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF\n"
        b"1: -> FLOCK  ADVISORY  WRITE 99 fe:00:5678 0 EOF\n"
        b"2: OFDLCK ADVISORY  READ -1 fe:00:5679 0 EOF\n"
        b"3: POSIX  ADVISORY  READ 0 fe:00:5680 0 EOF\n"
        b"4: POSIX\n"
    )
    monkeypatch.setattr(file_holders, "LOCKS", str(told))
    assert file_holders.lock_holders() == {5678: {1234}}
    monkeypatch.setattr(file_holders, "LOCKS", str(tmp_path / "nowhere"))
    assert file_holders.lock_holders() == {}


@pytest.mark.parametrize(
    ("mode", "name", "found"),
    [
        ("a", "x.jsonl", True),
        ("r", "x.jsonl", False),
        ("a", "x.db-shm", False),
        ("a", "x.db-wal", False),
    ],
)
def test_who_has_a_file_open_to_write(tmp_path: Path, mode: str, name: str, found: bool) -> None:
    path = tmp_path / "root" / "deep" / name
    path.parent.mkdir(parents=True)
    path.touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "root")
    with Holder(path, mode) as pid:
        processes = [p for p in proc.read_table().values() if p.pid in (pid, os.getpid())]
        writers = [(p.pid, held) for p, held in file_holders.writers_below(processes, [str(link)])]
        assert writers == ([(pid, str(path))] if found else [])
        assert list(file_holders.writers_below(processes, [str(tmp_path / "elsewhere")])) == []


def test_whoever_looks_is_not_looked_at(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w"):
        mine = [p for p in proc.read_table().values() if p.pid == os.getpid()]
        assert list(file_holders.writers_below(mine, [str(tmp_path)])) == []


FULL = Exhausted("/proc", "too many open files")


@pytest.mark.parametrize("failure", [FULL, Malformed("/proc/locks", "Input/output error")])
def test_locks_that_could_not_be_read_are_not_none(
    failure: SourceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> bytes:
        raise failure

    monkeypatch.setattr(file_holders, "read_system_file", refuse)
    with pytest.raises(type(failure)):
        file_holders.file_locks()
    failure = Forbidden("/proc/locks", "withheld")
    assert file_holders.file_locks() == []


def test_without_a_descriptor_nobody_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Process) -> tuple[str, ...]:
        raise failure

    failure: SourceError = FULL
    others = [proc.read_process(os.getppid(), proc.boot_id())]
    monkeypatch.setattr(Process, "opened_files", refuse)
    with pytest.raises(Exhausted):
        list(file_holders.writers_below(others, [str(tmp_path)]))
    failure = Forbidden("/proc", "another user's")
    assert list(file_holders.writers_below(others, [str(tmp_path)])) == []
