"""Mounts as the kernel lists them."""

from pathlib import Path

import pytest

from agentctl.errors import Gone
from agentctl.system import mountinfo
from agentctl.system.mountinfo import Mount, find_mount, is_below, parse_mounts, read_own_mounts

TABLE = (
    b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    b"99 27 0:9 /a\\040b /mnt/c\\134d rw shared:3 master:1 - nfs4 host:/x rw\n"
    b"garbage\n"
)


def test_lines_are_parsed_and_bad_ones_skipped() -> None:
    assert parse_mounts(TABLE) == [
        Mount(b"27", b"254:0", "/", "/", "ext4"),
        Mount(b"99", b"0:9", "/a b", "/mnt/c\\d", "nfs4"),
    ]


def test_our_own_mounts_have_a_root() -> None:
    assert any(mount.point == "/" and mount.kind for mount in read_own_mounts())


def test_a_missing_table_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountinfo, "OWN", str(tmp_path / "nowhere"))
    with pytest.raises(Gone):
        read_own_mounts()


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
def test_a_path_has_the_innermost_mount(path: str, kind: str) -> None:
    mount = find_mount(path, parse_mounts(TABLE))
    assert mount is not None
    assert mount.kind == kind


def test_the_last_mount_hides_those_before_it() -> None:
    first, second = Mount(b"1", b"0:1", "/", "/x", "ext4"), Mount(b"2", b"0:2", "/", "/x", "tmpfs")
    assert find_mount("/x/y", [first, second]) == second
    assert find_mount("/elsewhere", [first, second]) is None


def test_a_path_is_below_its_parents_only() -> None:
    assert is_below("/a/b", "/a")
    assert is_below("/a", "/")
    assert not is_below("/a", "/a")
    assert not is_below("/ab", "/a")
