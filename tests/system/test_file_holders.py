"""Which processes hold a file, as the kernel reports."""

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
file = open(sys.argv[1], sys.argv[2])
if sys.argv[3] == "lock":
    fcntl.flock(file, fcntl.LOCK_EX)
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


def test_holders_of_a_lock_are_found(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.touch()
    inode = path.stat().st_ino
    assert inode not in file_holders.find_lock_holders()
    with Holder(path, "r+", "lock") as pid:
        assert file_holders.find_lock_holders()[inode] == {pid}
    with path.open("rb") as mine:
        fcntl.lockf(mine, fcntl.LOCK_SH)
        assert file_holders.find_lock_holders()[inode] == {os.getpid()}
    assert inode not in file_holders.find_lock_holders()


def test_lines_that_are_no_lock_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = tmp_path / "locks"
    locks.write_bytes(
        b"1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF\n"
        b"1: -> FLOCK  ADVISORY  WRITE 99 fe:00:5678 0 EOF\n"
        b"2: OFDLCK ADVISORY  READ -1 fe:00:5679 0 EOF\n"
        b"3: POSIX  ADVISORY  READ 0 fe:00:5680 0 EOF\n"
        b"4: POSIX\n"
    )
    monkeypatch.setattr(file_holders, "LOCKS", str(locks))
    assert file_holders.find_lock_holders() == {5678: {1234}}
    monkeypatch.setattr(file_holders, "LOCKS", str(tmp_path / "nowhere"))
    assert file_holders.find_lock_holders() == {}


@pytest.mark.parametrize(
    ("mode", "name", "listed"),
    [
        ("a", "x.jsonl", True),
        ("r", "x.jsonl", False),
        ("a", "x.db-shm", False),
        ("a", "x.db-wal", False),
    ],
)
def test_writers_of_a_file_are_found(tmp_path: Path, mode: str, name: str, listed: bool) -> None:
    path = tmp_path / "root" / "deep" / name
    path.parent.mkdir(parents=True)
    path.touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "root")
    with Holder(path, mode) as pid:
        processes = [p for p in proc.read_table().values() if p.pid in (pid, os.getpid())]
        writers = [(p.pid, file) for p, file in file_holders.find_writers(processes, [str(link)])]
        assert writers == ([(pid, str(path))] if listed else [])
        assert list(file_holders.find_writers(processes, [str(tmp_path / "elsewhere")])) == []


def test_this_process_is_no_writer(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w"):
        mine = [p for p in proc.read_table().values() if p.pid == os.getpid()]
        assert list(file_holders.find_writers(mine, [str(tmp_path)])) == []


FULL = Exhausted("/proc", "too many open files")


@pytest.mark.parametrize("failure", [FULL, Malformed("/proc/locks", "Input/output error")])
def test_unreadable_locks_are_an_error(failure: SourceError, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise failure

    monkeypatch.setattr(file_holders, "read_system_file", refuse)
    with pytest.raises(type(failure)):
        file_holders.read_file_locks()
    failure = Forbidden("/proc/locks", "withheld")
    assert file_holders.read_file_locks() == []


def test_without_a_descriptor_no_process_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Process) -> tuple[str, ...]:
        raise failure

    failure: SourceError = FULL
    others = [proc.read_process(os.getppid(), proc.read_boot_id())]
    monkeypatch.setattr(Process, "list_own_files", refuse)
    with pytest.raises(Exhausted):
        list(file_holders.find_writers(others, [str(tmp_path)]))
    failure = Forbidden("/proc", "another user's")
    assert list(file_holders.find_writers(others, [str(tmp_path)])) == []
