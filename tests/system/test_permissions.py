"""Our own files are private, and files that others may write to are not trusted."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentctl.errors import Malformed, Untrusted
from agentctl.system.permissions import check_home, is_trusted_file, make_private, write_private
from tests.running import open_home


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_file_and_directory_are_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(str(tmp_path / "state" / "x.db"))
    finally:
        os.umask(before)
    assert _mode(tmp_path / "state") == 0o700
    assert _mode(tmp_path / "state" / "x.db") == 0o600


def test_an_existing_file_keeps_its_data(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("data")
    make_private(str(path))
    assert path.read_text() == "data"


def test_a_missing_home_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_private(str(tmp_path / "nonexistent" / ".agentctl" / "x.db"))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_keeps_its_locks(tmp_path: Path) -> None:
    """To close any descriptor of a file ends all locks of this process on it, such as SQLite's."""
    path = tmp_path / "x.db"
    path.write_text("data")
    with path.open("r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        make_private(str(path))
        assert _is_locked(path)


def test_a_new_file_is_not_opened_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may have locked it meanwhile."""
    monkeypatch.setattr(os, "open", _fail)
    monkeypatch.setattr(os, "close", _fail)
    make_private(str(tmp_path / "x.db"))
    assert (tmp_path / "x.db").exists()


def _fail(*_: object) -> None:
    raise AssertionError("it was opened or closed")


def _is_locked(path: Path) -> bool:
    """True if another process cannot lock the file."""
    ours = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    ran = subprocess.run([sys.executable, "-c", ours, str(path)], capture_output=True, check=False)
    return b"BlockingIOError" in ran.stderr


def test_a_directory_in_the_way_is_malformed(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="not a regular file") as error:
        make_private(str(tmp_path))
    assert error.value.hint == f"move it away: {tmp_path}"


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state" / "x.db"
    make_private(str(path))
    path.parent.chmod(mode)
    for check in (make_private, is_trusted_file):
        with pytest.raises(Untrusted, match="may write to it") as error:
            check(str(path))
        assert error.value.hint.endswith(f"chmod go-w {path.parent}")
        assert error.value.exit_code == 4


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "state" / "x.db"
    make_private(str(path))
    for target in (path, path.parent):
        os.chown(target, 4242, 4242)
        with pytest.raises(Untrusted, match="it belongs to uid 4242, not to you") as error:
            is_trusted_file(str(path))
        assert "AGENTCTL_HOME" in error.value.hint
        os.chown(target, 0, 0)
    assert is_trusted_file(str(path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_trusts_a_file_of_root() -> None:
    """As with settings for all users that only root can write."""
    with open_home() as home:
        path = home / "state" / "x.db"
        make_private(str(path))
        path.parent.chmod(0o755)
        os.seteuid(4242)
        try:
            assert is_trusted_file(str(path))
        finally:
            os.seteuid(0)


def test_a_file_that_the_group_may_write_is_refused_where_the_group_can_enter(tmp_path: Path) -> None:
    path = tmp_path / "state" / "config.toml"
    make_private(str(path))
    path.chmod(0o660)
    assert is_trusted_file(str(path))
    path.parent.chmod(0o750)
    with pytest.raises(Untrusted, match="its group may write to it"):
        is_trusted_file(str(path))
    path.parent.chmod(0o700)
    path.chmod(0o602)
    with pytest.raises(Untrusted, match="every user may write to it"):
        is_trusted_file(str(path))


def test_an_absent_file_is_not_trusted_and_no_error(tmp_path: Path) -> None:
    assert not is_trusted_file(str(tmp_path / "x.db"))
    assert not is_trusted_file(str(tmp_path / "nowhere" / "x.db"))
    check_home(str(tmp_path / "nowhere"))


def test_each_file_that_we_trust_is_checked(tmp_path: Path) -> None:
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


def test_a_private_write_replaces_the_file_or_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state" / "x"
    write_private(str(path), b"old")
    write_private(str(path), b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)

    def refuse(*_: object) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="full"):
        write_private(str(path), b"newest")
    assert (path.read_bytes(), os.listdir(path.parent)) == (b"new", ["x"])
