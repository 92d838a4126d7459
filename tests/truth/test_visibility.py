"""What cannot be seen from here: each limit, and where it does not count."""

from pathlib import Path

import pytest

from agentctl.system import mountinfo, proc
from agentctl.system.mountinfo import Mount
from agentctl.system.proc import INITIAL_PID_NAMESPACE, TICKS, Process
from agentctl.truth import visibility
from agentctl.truth.visibility import MOUNTS_HIDDEN, Sight
from tests.truth.strategies import process

BOOT = 1000.0
NAMESPACE_BEGAN = 2000.0  # by the clock: its first process started then
ROOT = Mount(b"1", b"0:1", "/", "/", "ext4")
CONTAINER = "pid:[4026532000]"


def mount(point: str, root: str, kind: str) -> Mount:
    return Mount(b"2", b"0:2", root, point, kind)


def table(*, first: bool = True) -> dict[int, Process]:
    ticks = round((NAMESPACE_BEGAN - BOOT) * TICKS)
    found = {7: process(7)}
    if first:
        found[1] = process(1, parent=0, start=ticks)
    return found


def seen(
    *mounts: Mount, namespace: str = INITIAL_PID_NAMESPACE, first: bool = True, **environ: str
) -> Sight:
    return Sight(table(first=first), BOOT, environ, namespace=namespace, mounts=(ROOT, *mounts))


def test_on_a_plain_machine_all_is_visible() -> None:
    found = seen(mount("/home", "/", "xfs"))
    assert found.clear
    assert found.obstacle("/home/me/x.jsonl", 1500.0, 1600.0) == ""


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "virtiofs", "fuse.ceph-fuse", "fuse"]
)
def test_a_network_file_system_is_shared_with_other_machines(kind: str) -> None:
    found = seen(mount("/home", "/", kind))
    assert not found.clear
    assert "another machine" in found.obstacle("/home/me/x.jsonl", 1500.0, 1600.0)
    # also what is older than our boot: the other machine may be up for longer
    assert found.obstacle("/home/me/x.jsonl", 10.0, 20.0)
    assert found.obstacle("/var/x.jsonl", 1500.0, 1600.0) == ""
    assert found.is_on_network("/home/me/x")
    assert not found.is_on_network("/var/x")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("fuse.sshfs", "its files are on a network file system (fuse.sshfs at /home)"),
        (
            "fuse.unheard-of",
            "its files are on what may be a network file system (fuse.unheard-of at /home)",
        ),
    ],
)
def test_of_a_fuse_that_we_do_not_know_nobody_can_tell(kind: str, said: str) -> None:
    assert seen(mount("/home", "/", kind)).obstacle("/home/me/x", 1500.0, 1600.0).startswith(said)


@pytest.mark.parametrize(
    "kind",
    ["fuseblk", "fuseblk.exfat", "fuse.ntfs-3g", "fuse.gocryptfs", "fuse.fuse-overlayfs", "fusectl"],
)
def test_a_local_fuse(kind: str) -> None:
    assert seen(mount("/home", "/", kind)).clear


@pytest.mark.parametrize(
    ("shown", "began", "own"),
    [
        (ROOT, 2500.0, True),
        (ROOT, 1500.0, False),  # it began before our namespace did: somebody else began it
        (ROOT, 2000.5, False),  # at about the same time: clocks do not tell which was first
        (ROOT, None, False),
        (mount("/home/me", "/", "tmpfs"), 2500.0, True),
        (mount("/home/me", "/", "tmpfs"), 1500.0, False),
        (mount("/home/me", "/me", "ext4"), 2500.0, False),  # bound into the container
        (mount("/home/me", "/volumes/x/_data", "ext4"), 2500.0, False),
        (mount("/", "/", "overlay"), 1500.0, True),  # the container's own, from before it was restarted
        (mount("/home/me", "/cache", "tmpfs"), 2500.0, False),
    ],
)
def test_in_a_container(
    shown: Mount, began: float | None, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "_maps_one_id", lambda: False)
    found = seen(shown, namespace=CONTAINER)
    assert not found.clear
    assert (found.obstacle("/home/me/x.jsonl", began, 2600.0) == "") is own


def test_nobody_has_lived_through_a_boot() -> None:
    found = seen(mount("/home/me", "/me", "ext4"), namespace=CONTAINER, first=False)
    assert found.obstacle("/home/me/x.jsonl", 10.0, BOOT - 2) == ""
    assert found.obstacle("/home/me/x.jsonl", 10.0, BOOT + 2)
    assert found.obstacle("/home/me/x.jsonl", 10.0, None)


def test_where_other_users_are_hidden() -> None:
    found = seen(first=False)
    assert not found.clear
    assert "hidepid" in found.obstacle("/home/me/x.jsonl", 1500.0, 1600.0)


def test_a_person_may_know_better() -> None:
    found = seen(mount("/home", "/", "nfs4"), namespace=CONTAINER, first=False, AGENTCTL_ALONE="1")
    assert found.clear
    assert found.obstacle("/home/me/x.jsonl", None, None) == ""
    assert not found.is_on_network("/home/me/x.jsonl")


def test_the_innermost_and_latest_mount_counts(tmp_path: Path) -> None:
    inner = str(tmp_path)
    found = seen(
        mount(inner, "/", "ext4"), mount(inner, "/", "nfs"), mount(f"{inner}-other", "/", "ext4")
    )
    assert found.is_on_network(f"{inner}/x")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    assert found.is_on_network(f"{link}/x")


def test_a_file_may_be_elsewhere_than_its_directory(tmp_path: Path) -> None:
    """It may be a link, or be mounted by itself. The directory is looked up once."""
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.mkdir()
    (near / "link").symlink_to(far / "x")
    (near / "back").symlink_to("/")
    found = seen(mount(str(far), "/", "nfs"), mount(f"{near}/mounted", "/m", "nfs"))
    for name, remote in (("plain", False), ("link", True), ("mounted", True), ("back/etc", False)):
        assert found.is_on_network(f"{near}/{name}") is remote, name
    assert found.is_on_network(f"{near}/back{far}/x")


def test_where_our_mounts_cannot_be_read_all_may_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountinfo, "OWN", "/nonexistent")
    monkeypatch.setattr(proc, "namespace", lambda: INITIAL_PID_NAMESPACE)
    found = visibility.take(table(), BOOT, {})
    assert not found.clear
    assert found.obstacle("/home/me/x.jsonl", 1500.0, 1600.0) == MOUNTS_HIDDEN
    assert found.obstacle("/home/me/x.jsonl", 10.0, 20.0) == MOUNTS_HIDDEN  # before our boot
    assert found.is_on_network("/home/me/x.jsonl")
    alone = visibility.take(table(), BOOT, {"AGENTCTL_ALONE": "1"})
    assert alone.clear
    assert not alone.is_on_network("/home/me/x.jsonl")


def test_where_our_namespace_is_not_told_we_may_be_in_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proc, "namespace", lambda: "")
    assert not visibility.take(table(), BOOT, {}).clear


@pytest.mark.parametrize(
    ("ids", "own"),
    [
        ("         0          0 4294967295\n", True),
        ("0 1000 1\n1 100000 65536\n", True),  # a container of a user
        ("0 1000 1\n", False),  # `unshare -Ur`
        (None, True),  # a kernel without user namespaces
    ],
)
def test_the_layers_of_a_container_around_a_sandbox_are_not_its_own(
    ids: str | None, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What began in the sandbox still counts as begun inside."""
    path = tmp_path / "uid_map"
    if ids is not None:
        path.write_text(ids)
    monkeypatch.setattr(visibility, "UID_MAP", str(path))
    found = seen(mount("/", "/", "overlay"), namespace=CONTAINER)
    assert (found.obstacle("/home/me/x.jsonl", 1500.0, 2600.0) == "") is own
    assert found.obstacle("/home/me/x.jsonl", 2500.0, 2600.0) == ""


def test_nor_where_the_users_of_our_namespace_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "UID_MAP", str(tmp_path))
    found = seen(mount("/", "/", "overlay"), namespace=CONTAINER)
    assert "pid namespace" in found.obstacle("/home/me/x.jsonl", 1500.0, 2600.0)


def test_the_users_of_our_namespace_are_asked_for_once_and_only_in_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> bool:
        asked.append(1)
        return False

    asked: list[int] = []
    monkeypatch.setattr(visibility, "_maps_one_id", ask)
    plain = seen(namespace=CONTAINER)
    assert plain.obstacle("/x", 1500.0, 2600.0)
    assert asked == []
    layered = seen(mount("/", "/", "overlay"), namespace=CONTAINER)
    assert [layered.obstacle("/x", 1500.0, 2600.0) for _ in range(3)] == [""] * 3
    assert asked == [1]
