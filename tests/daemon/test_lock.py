"""One daemon for one home."""

import errno
import fcntl
import os
import shutil
import stat
from pathlib import Path

import pytest

from agentctl.daemon.lock import Singleton
from agentctl.daemon_client import lock_file
from agentctl.errors import Gone, Malformed, Refused, Untrusted


def test_the_error_of_a_second_daemon_names_the_first(tmp_path: Path) -> None:
    first = Singleton(str(tmp_path / "state"))
    with pytest.raises(Refused, match=f"agentctl .*, pid {os.getpid()}$"):
        Singleton(str(tmp_path / "state"))
    first.release()
    Singleton(str(tmp_path / "state")).release()


def test_the_lock_file_names_its_holder(tmp_path: Path) -> None:
    lock = Singleton(str(tmp_path / "state"))
    assert lock_file.find_proven(lock.home) == lock.holder
    assert stat.S_IMODE(os.stat(lock.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(lock.home).st_mode) == 0o700
    lock.release()
    assert lock_file.read_holder(lock.home) is None


def test_two_homes_have_two_locks(tmp_path: Path) -> None:
    locks = [Singleton(str(tmp_path / name)) for name in ("a", "b")]
    assert all(lock.is_ours() for lock in locks)
    for lock in locks:
        lock.release()


def test_forged_content_is_not_repeated(tmp_path: Path) -> None:
    lock = Singleton(str(tmp_path))
    forged = lock.holder._replace(identity=lock.holder.identity._replace(pid=1), version="9.9")
    Path(lock.path).write_bytes(forged.to_bytes())
    with pytest.raises(Refused) as refused:
        Singleton(str(tmp_path))
    assert "9.9" not in str(refused.value)
    assert "has not written its name" in str(refused.value)
    lock.release()


def test_a_home_that_was_deleted_is_not_ours_any_more(tmp_path: Path) -> None:
    lock = Singleton(str(tmp_path / "state"))
    shutil.rmtree(lock.home)
    assert not lock.is_ours()
    second = Singleton(lock.home)
    assert (second.is_ours(), lock.is_ours()) == (True, False)
    second.release()


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "daemon.lock").symlink_to(tmp_path / "target")
    with pytest.raises(Exception, match=r"daemon\.lock"):
        Singleton(str(tmp_path))
    assert (tmp_path / "target").read_text() == "precious"
    (tmp_path / "daemon.lock").unlink()
    os.mkfifo(tmp_path / "daemon.lock")
    with pytest.raises(Malformed, match="not a regular file"):
        Singleton(str(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can own another's file")
def test_another_user_s_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "daemon.lock").write_text("")
    os.chown(tmp_path / "daemon.lock", 4242, 4242)
    with pytest.raises(Untrusted, match="belongs to uid 4242"):
        Singleton(str(tmp_path))


def test_a_full_disk_does_not_prevent_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        lock = Singleton(str(tmp_path))
    assert lock.problem == f"{lock.path}: No space left on device"
    with pytest.raises(Refused, match="has not written its name"):
        Singleton(str(tmp_path))
    lock.release()


def test_a_file_system_without_locks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(Malformed, match="No locks available"):
        Singleton(str(tmp_path))


def test_a_shorter_content_replaces_a_longer_one(tmp_path: Path) -> None:
    (tmp_path / "daemon.lock").write_text("x" * 2000)
    lock = Singleton(str(tmp_path))
    assert lock_file.read_holder(lock.home) == lock.holder
    lock.release()


def test_a_home_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        Singleton(str(tmp_path / "no" / "such"))
