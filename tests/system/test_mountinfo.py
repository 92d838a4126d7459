"""Mounts as the kernel writes them down."""

from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.system import mountinfo
from agentctl.system.mountinfo import Mount, is_below, mount_of, parse, read_own

TABLE = (
    b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    b"99 27 0:9 /a\\040b /mnt/c\\134d rw shared:3 master:1 - nfs4 host:/x rw\n"
    b"garbage\n"
)


def test_lines_are_read_and_others_passed_over() -> None:
    assert parse(TABLE) == [
        Mount(b"27", b"254:0", "/", "/", "ext4"),
        Mount(b"99", b"0:9", "/a b", "/mnt/c\\d", "nfs4"),
    ]


def test_our_own_have_a_root() -> None:
    assert any(mount.point == "/" and mount.kind for mount in read_own())


def test_no_table_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountinfo, "OWN", str(tmp_path / "nowhere"))
    with pytest.raises(Gone):
        read_own()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc", "ext4"),
        ("/mnt/c\\d", "nfs4"),
        ("/mnt/c\\d/e", "nfs4"),
        ("/mnt/c\\dd", "ext4"),
        ("/", "ext4"),
    ],
)
def test_the_mount_of_a_path(path: str, kind: str) -> None:
    found = mount_of(path, parse(TABLE))
    assert found is not None
    assert found.kind == kind


def test_the_last_mount_hides_those_before_it() -> None:
    first, second = Mount(b"1", b"0:1", "/", "/x", "ext4"), Mount(b"2", b"0:2", "/", "/x", "tmpfs")
    assert mount_of("/x/y", [first, second]) == second
    assert mount_of("/elsewhere", [first, second]) is None


def test_what_is_below_a_directory() -> None:
    assert is_below("/a/b", "/a")
    assert is_below("/a", "/")
    assert not is_below("/a", "/a")
    assert not is_below("/ab", "/a")
