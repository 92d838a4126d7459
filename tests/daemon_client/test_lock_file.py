"""The identity of the daemon: the kernel proves it, the file alone does not."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentctl.daemon_client import lock_file
from agentctl.daemon_client.lock_file import Holder
from agentctl.system import proc
from agentctl.system.proc import ProcessIdentity


def read_own_identity() -> ProcessIdentity:
    return proc.read_process(os.getpid(), proc.read_boot_id()).identity


def write_holder(home: Path, identity: ProcessIdentity, namespace: str | None = None) -> int:
    """Return the descriptor of the file, not locked."""
    fd = os.open(lock_file.lock_file(str(home)), os.O_RDWR | os.O_CREAT, 0o600)
    holder = Holder(identity, namespace, "0.1.0", f"{home}/daemon.sock", time.time())
    os.pwrite(fd, holder.to_bytes(), 0)
    return fd


def test_a_written_holder_is_read_back(tmp_path: Path) -> None:
    fd = write_holder(tmp_path, read_own_identity(), proc.pid_namespace())
    os.close(fd)
    holder = lock_file.read_holder(str(tmp_path))
    assert holder is not None
    assert (holder.identity, holder.version, holder.is_foreign) == (read_own_identity(), "0.1.0", False)
    assert holder.label == f"agentctl 0.1.0, pid {os.getpid()}"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"boot": 1, "pid": "x"}', b"\xff", b"[" * 9999]
)
def test_nonsense_names_no_holder(tmp_path: Path, content: bytes) -> None:
    Path(lock_file.lock_file(str(tmp_path))).write_bytes(content)
    assert lock_file.read_holder(str(tmp_path)) is None
    assert lock_file.find_proven(str(tmp_path)) is None


def test_without_a_file_there_is_no_holder(tmp_path: Path) -> None:
    assert lock_file.find_proven(str(tmp_path)) is None


def test_only_the_holder_of_the_lock_is_proven(tmp_path: Path) -> None:
    fd = write_holder(tmp_path, read_own_identity())
    assert lock_file.find_proven(str(tmp_path)) is None, "open is not locked"
    fcntl.flock(fd, fcntl.LOCK_EX)
    holder = lock_file.find_proven(str(tmp_path))
    assert holder is not None
    assert holder.identity == read_own_identity()
    os.close(fd)
    assert lock_file.find_proven(str(tmp_path)) is None


def test_a_lock_on_another_home_proves_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    ours, other = (
        write_holder(tmp_path / "a", read_own_identity()),
        write_holder(tmp_path / "b", read_own_identity()),
    )
    fcntl.flock(ours, fcntl.LOCK_EX)
    assert lock_file.find_proven(str(tmp_path / "a")) is not None
    assert lock_file.find_proven(str(tmp_path / "b")) is None
    os.close(ours)
    os.close(other)


def test_a_process_that_does_not_hold_the_lock_is_not_proven(tmp_path: Path) -> None:
    """Otherwise `daemon stop` could signal it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        its = proc.read_process(victim.pid, proc.read_boot_id()).identity
        fd = write_holder(tmp_path, its)
        fcntl.flock(fd, fcntl.LOCK_EX)  # another process holds it than the file names
        assert lock_file.find_proven(str(tmp_path)) is None
        os.close(fd)
        victim.kill()


def test_a_reused_pid_is_not_proven(tmp_path: Path) -> None:
    mine = read_own_identity()
    fd = write_holder(tmp_path, mine._replace(start=mine.start - 1))
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert lock_file.find_proven(str(tmp_path)) is None
    os.close(fd)


def test_a_holder_in_another_container_is_likely_but_not_proven(tmp_path: Path) -> None:
    os.close(write_holder(tmp_path, read_own_identity(), "pid:[1]"))
    holder = lock_file.read_holder(str(tmp_path))
    assert holder is not None
    assert holder.is_foreign
    assert "another container" in holder.label
    assert lock_file.find_likely(str(tmp_path)) == holder
    assert lock_file.find_proven(str(tmp_path)) is None
