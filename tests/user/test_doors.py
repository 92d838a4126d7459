"""Directories below a closed one, seen by a user who may not enter it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.namespaces import unshare
from tests.user.account import find_free_uid
from tests.user.doors import drop_nested, find_closed_parent, is_readable
from tests.user.enter import PROJECT

LOOK = """
import sys
from pathlib import Path
from tests.user.doors import open_doors
from tests.user.enter import become
needed, workshop, uid = sys.argv[1:]
open_doors([Path(needed)], Path(workshop))
become(int(uid))
print(Path(needed, "deep", "file").read_text())
"""


def test_paths_below_another_are_left_out() -> None:
    paths = map(Path, ("/a/b", "/a", "/ab", "/a/b/c", "/a"))
    assert drop_nested(paths) == [Path("/a"), Path("/ab")]


def test_the_first_closed_directory() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:  # pytest's own are closed
        base = Path(directory)
        base.chmod(0o755)
        inner = base / "one" / "two" / "three"
        inner.mkdir(parents=True)
        (base / "one" / "two").chmod(0o700)
        (base / "one").chmod(0o700)
        assert find_closed_parent(inner) == base / "one"
    assert find_closed_parent(Path("/usr/bin")) is None


def test_a_private_file_makes_a_directory_unreadable(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "file").touch(mode=0o644)
    assert is_readable(tmp_path)
    (tmp_path / "file").chmod(0o600)
    assert not is_readable(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o755, 0o700], ids=["below a closed one", "closed itself"])
def test_an_ordinary_user_reads_below_a_closed_directory(tmp_path: Path, mode: int) -> None:
    needed = tmp_path / "closed" / "needed"
    (needed / "deep").mkdir(parents=True)
    (needed / "deep" / "file").write_text("found")
    (needed / "deep" / "file").chmod(mode & 0o644)
    needed.chmod(mode)
    (tmp_path / "closed").chmod(0o700)
    with tempfile.TemporaryDirectory(dir="/tmp") as workshop:  # not below a door that is covered
        words = [str(needed), workshop, str(find_free_uid())]
        child = subprocess.run(
            [*unshare("--mount"), sys.executable, "-c", LOOK, *words],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert child.stdout == "found\n", child.stderr
    assert (needed.stat().st_mode & 0o777) == mode
