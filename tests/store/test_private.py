"""Our own files are for nobody else's eyes."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.store.private import make_private


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_file_and_directory_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(str(tmp_path / "state" / "x.db"))
    finally:
        os.umask(before)
    assert _mode(tmp_path / "state") == 0o700
    assert _mode(tmp_path / "state" / "x.db") == 0o600


def test_what_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("data")
    make_private(str(path))
    assert path.read_text() == "data"


def test_a_home_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_private(str(tmp_path / "nonexistent" / ".agentctl" / "x.db"))
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_keeps_its_locks(tmp_path: Path) -> None:
    """A descriptor that is closed ends the locks of all others in this process, as SQLite's."""
    path = tmp_path / "x.db"
    path.write_text("data")
    with path.open("r+") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        make_private(str(path))
        assert _is_locked(path)


def test_what_is_new_is_never_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may have locked it since it was there."""
    monkeypatch.setattr(os, "open", _never)
    monkeypatch.setattr(os, "close", _never)
    make_private(str(tmp_path / "x.db"))
    assert (tmp_path / "x.db").exists()


def _never(*_: object) -> None:
    raise AssertionError("it was opened or closed")


def _is_locked(path: Path) -> bool:
    """For another process."""
    ours = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    ran = subprocess.run([sys.executable, "-c", ours, str(path)], capture_output=True, check=False)
    return b"BlockingIOError" in ran.stderr


def test_a_directory_in_the_way_is_told(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        make_private(str(tmp_path))
