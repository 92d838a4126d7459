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


def test_the_second_is_told_who_is_the_first(tmp_path: Path) -> None:
    first = Singleton(str(tmp_path / "state"))
    with pytest.raises(Refused, match=f"agentctl .*, pid {os.getpid()}$"):
        Singleton(str(tmp_path / "state"))
    first.release()
    Singleton(str(tmp_path / "state")).release()


def test_it_says_who_it_is(tmp_path: Path) -> None:
    lock = Singleton(str(tmp_path / "state"))
    assert lock_file.proven(lock.home) == lock.holder
    assert stat.S_IMODE(os.stat(lock.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(lock.home).st_mode) == 0o700
    lock.release()
    assert lock_file.told(lock.home) is None


def test_two_homes_are_two(tmp_path: Path) -> None:
    locks = [Singleton(str(tmp_path / name)) for name in ("a", "b")]
    assert all(lock.still_ours() for lock in locks)
    for lock in locks:
        lock.release()


def test_forged_content_is_not_repeated(tmp_path: Path) -> None:
    lock = Singleton(str(tmp_path))
    forged = lock.holder._replace(identity=lock.holder.identity._replace(pid=1), version="9.9")
    Path(lock.path).write_bytes(forged.written())
    with pytest.raises(Refused) as told:
        Singleton(str(tmp_path))
    assert "9.9" not in str(told.value)
    assert "has not said who it is" in str(told.value)
    lock.release()


def test_a_home_that_was_deleted_is_not_ours_any_more(tmp_path: Path) -> None:
    lock = Singleton(str(tmp_path / "state"))
    shutil.rmtree(lock.home)
    assert not lock.still_ours()
    second = Singleton(lock.home)
    assert (second.still_ours(), lock.still_ours()) == (True, False)
    second.release()


def test_what_is_not_our_file_is_refused(tmp_path: Path) -> None:
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


def test_a_full_disk_keeps_nobody_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        lock = Singleton(str(tmp_path))
    assert lock.problem == f"{lock.path}: No space left on device"
    with pytest.raises(Refused, match="has not said who it is"):
        Singleton(str(tmp_path))
    lock.release()


def test_a_file_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(Malformed, match="No locks available"):
        Singleton(str(tmp_path))


def test_a_shorter_name_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    (tmp_path / "daemon.lock").write_text("x" * 2000)
    lock = Singleton(str(tmp_path))
    assert lock_file.told(lock.home) == lock.holder
    lock.release()


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(Gone):
        Singleton(str(tmp_path / "no" / "such"))
