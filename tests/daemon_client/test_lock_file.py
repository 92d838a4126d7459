"""Who the daemon is: the kernel's word counts, the file's alone does not."""

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
from agentctl.system.identity import ProcessIdentity


def _me() -> ProcessIdentity:
    return proc.read_process(os.getpid(), proc.boot_id()).identity


def _write(home: Path, identity: ProcessIdentity, namespace: str | None = None) -> int:
    """The descriptor of the file, not locked."""
    fd = os.open(lock_file.lock_file(str(home)), os.O_RDWR | os.O_CREAT, 0o600)
    told = Holder(identity, namespace, "0.1.0", f"{home}/daemon.sock", time.time())
    os.pwrite(fd, told.written(), 0)
    return fd


def test_what_it_writes_it_reads(tmp_path: Path) -> None:
    fd = _write(tmp_path, _me(), proc.namespace())
    os.close(fd)
    told = lock_file.told(str(tmp_path))
    assert told is not None
    assert (told.identity, told.version, told.foreign) == (_me(), "0.1.0", False)
    assert told.named == f"agentctl 0.1.0, pid {os.getpid()}"


@pytest.mark.parametrize(
    "said", [b"", b"{", b"[]", b"{}", b'{"boot": 1, "pid": "x"}', b"\xff", b"[" * 9999]
)
def test_nonsense_names_nobody(tmp_path: Path, said: bytes) -> None:
    Path(lock_file.lock_file(str(tmp_path))).write_bytes(said)
    assert lock_file.told(str(tmp_path)) is None
    assert lock_file.proven(str(tmp_path)) is None


def test_no_file(tmp_path: Path) -> None:
    assert lock_file.proven(str(tmp_path)) is None


def test_only_who_holds_the_lock_is_proven(tmp_path: Path) -> None:
    fd = _write(tmp_path, _me())
    assert lock_file.proven(str(tmp_path)) is None, "open is not locked"
    fcntl.flock(fd, fcntl.LOCK_EX)
    found = lock_file.proven(str(tmp_path))
    assert found is not None
    assert found.identity == _me()
    os.close(fd)
    assert lock_file.proven(str(tmp_path)) is None


def test_a_lock_on_another_home_proves_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    held, other = _write(tmp_path / "a", _me()), _write(tmp_path / "b", _me())
    fcntl.flock(held, fcntl.LOCK_EX)
    assert lock_file.proven(str(tmp_path / "a")) is not None
    assert lock_file.proven(str(tmp_path / "b")) is None
    os.close(held)
    os.close(other)


def test_a_forged_file_names_a_process_that_holds_nothing(tmp_path: Path) -> None:
    """What a fallback by signal must not reach."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        its = proc.read_process(victim.pid, proc.boot_id()).identity
        fd = _write(tmp_path, its)
        fcntl.flock(fd, fcntl.LOCK_EX)  # somebody does hold it; not the one that is named
        assert lock_file.proven(str(tmp_path)) is None
        os.close(fd)
        victim.kill()


def test_a_pid_that_was_reused_is_another(tmp_path: Path) -> None:
    mine = _me()
    fd = _write(tmp_path, mine._replace(start=mine.start - 1))
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert lock_file.proven(str(tmp_path)) is None
    os.close(fd)


def test_one_in_another_container_is_named_as_such(tmp_path: Path) -> None:
    os.close(_write(tmp_path, _me(), "pid:[1]"))
    told = lock_file.told(str(tmp_path))
    assert told is not None
    assert told.foreign
    assert "another container" in told.named
    assert lock_file.likely(str(tmp_path)) == told
    assert lock_file.proven(str(tmp_path)) is None
