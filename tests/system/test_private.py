"""Our own files are for nobody else's eyes."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.errors import Malformed, Untrusted
from agentctl.system.private import check_home, make_private, present
from tests.running import open_home


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
    with pytest.raises(Malformed, match="not a regular file") as told:
        make_private(str(tmp_path))
    assert told.value.hint == f"move it away: {tmp_path}"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state" / "x.db"
    make_private(str(path))
    path.parent.chmod(mode)
    for ask in (make_private, present):
        with pytest.raises(Untrusted, match="may write to it") as told:
            ask(str(path))
        assert told.value.hint.endswith(f"chmod go-w {path.parent}")
        assert told.value.exit_code == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state" / "x.db"
    make_private(str(path))
    for given in (path, path.parent):
        os.chown(given, 4242, 4242)
        with pytest.raises(Untrusted, match="it belongs to uid 4242, not to you") as told:
            present(str(path))
        assert "AGENTCTL_HOME" in told.value.hint
        os.chown(given, 0, 0)
    assert present(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_is_root_s_is_no_danger_to_a_user() -> None:
    """As settings that are laid down for all, and can be written by root alone."""
    with open_home() as home:
        path = home / "state" / "x.db"
        make_private(str(path))
        path.parent.chmod(0o755)
        os.seteuid(4242)
        try:
            assert present(str(path))
        finally:
            os.seteuid(0)


def test_a_file_that_the_group_may_write_counts_where_the_group_can_enter(tmp_path: Path) -> None:
    path = tmp_path / "state" / "config.toml"
    make_private(str(path))
    path.chmod(0o660)
    assert present(str(path))
    path.parent.chmod(0o750)
    with pytest.raises(Untrusted, match="its group may write to it"):
        present(str(path))
    path.parent.chmod(0o700)
    path.chmod(0o602)
    with pytest.raises(Untrusted, match="anybody may write to it"):
        present(str(path))


def test_what_is_absent_is_no_problem(tmp_path: Path) -> None:
    assert not present(str(tmp_path / "x.db"))
    assert not present(str(tmp_path / "nowhere" / "x.db"))
    check_home(str(tmp_path / "nowhere"))


def test_all_that_we_believe_and_run_is_checked(tmp_path: Path) -> None:
    check_home(str(tmp_path))
    for name in ("state.db", "config.toml"):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).chmod(0o666)
        with pytest.raises(Untrusted, match=name):
            check_home(str(tmp_path))
        (tmp_path / name).unlink()
    (tmp_path / "launches").mkdir()
    (tmp_path / "launches").chmod(0o777)
    with pytest.raises(Untrusted, match="launches"):
        check_home(str(tmp_path))
