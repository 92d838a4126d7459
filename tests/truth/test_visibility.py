"""What cannot be seen from here: each limit, and where it does not count."""

from pathlib import Path

import pytest

from agentctl.system import mountinfo, proc, procfs
from agentctl.system.mountinfo import Mount
from agentctl.system.proc import INITIAL_PID_NAMESPACE, TICKS, Process
from agentctl.truth import visibility
from agentctl.truth.visibility import MOUNTS_HIDDEN, Visibility
from tests.truth.strategies import make_process

BOOT = 1000.0
NAMESPACE_BEGAN = 2000.0  # by the clock: its first process started then
ROOT = Mount(b"1", b"0:1", "/", "/", "ext4")
CONTAINER = "pid:[4026532000]"


def make_mount(point: str, root: str, kind: str) -> Mount:
    return Mount(b"2", b"0:2", root, point, kind)


def make_table(*, first: bool = True) -> dict[int, Process]:
    ticks = round((NAMESPACE_BEGAN - BOOT) * TICKS)
    table = {7: make_process(7)}
    if first:
        table[1] = make_process(1, parent=0, start=ticks)
    return table


def make_view(
    *mounts: Mount, namespace: str = INITIAL_PID_NAMESPACE, first: bool = True, **environ: str
) -> Visibility:
    return Visibility(
        make_table(first=first), BOOT, environ, namespace=namespace, mounts=(ROOT, *mounts)
    )


def test_a_plain_machine_has_no_obstacle() -> None:
    view = make_view(make_mount("/home", "/", "xfs"))
    assert view.is_clear
    assert view.find_obstacle("/home/me/x.jsonl", 1500.0, 1600.0) == ""


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "virtiofs", "fuse.ceph-fuse", "fuse"]
)
def test_a_network_file_system_is_shared_with_other_machines(kind: str) -> None:
    view = make_view(make_mount("/home", "/", kind))
    assert not view.is_clear
    assert "another machine" in view.find_obstacle("/home/me/x.jsonl", 1500.0, 1600.0)
    # also what is older than our boot: the other machine may be up for longer
    assert view.find_obstacle("/home/me/x.jsonl", 10.0, 20.0)
    assert view.find_obstacle("/var/x.jsonl", 1500.0, 1600.0) == ""
    assert view.is_on_network("/home/me/x")
    assert not view.is_on_network("/var/x")


@pytest.mark.parametrize(
    ("kind", "obstacle"),
    [
        ("fuse.sshfs", "its files are on a network file system (fuse.sshfs at /home)"),
        (
            "fuse.unheard-of",
            "its files are on what may be a network file system (fuse.unheard-of at /home)",
        ),
    ],
)
def test_an_unknown_fuse_may_be_a_network_file_system(kind: str, obstacle: str) -> None:
    assert (
        make_view(make_mount("/home", "/", kind))
        .find_obstacle("/home/me/x", 1500.0, 1600.0)
        .startswith(obstacle)
    )


@pytest.mark.parametrize(
    "kind",
    ["fuseblk", "fuseblk.exfat", "fuse.ntfs-3g", "fuse.gocryptfs", "fuse.fuse-overlayfs", "fusectl"],
)
def test_a_local_fuse_has_no_obstacle(kind: str) -> None:
    assert make_view(make_mount("/home", "/", kind)).is_clear


@pytest.mark.parametrize(
    ("mounted", "began", "own"),
    [
        (ROOT, 2500.0, True),
        (ROOT, 1500.0, False),  # older than our namespace: begun outside of it
        (ROOT, 2000.5, False),  # at about the same time: clocks do not show which was first
        (ROOT, None, False),
        (make_mount("/home/me", "/", "tmpfs"), 2500.0, True),
        (make_mount("/home/me", "/", "tmpfs"), 1500.0, False),
        (make_mount("/home/me", "/me", "ext4"), 2500.0, False),  # bound into the container
        (make_mount("/home/me", "/volumes/x/_data", "ext4"), 2500.0, False),
        (
            make_mount("/", "/", "overlay"),
            1500.0,
            True,
        ),  # the container's own, from before it was restarted
        (make_mount("/home/me", "/cache", "tmpfs"), 2500.0, False),
    ],
)
def test_a_container_sees_what_began_in_it(
    mounted: Mount, began: float | None, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "_maps_one_id", lambda: False)
    view = make_view(mounted, namespace=CONTAINER)
    assert not view.is_clear
    assert (view.find_obstacle("/home/me/x.jsonl", began, 2600.0) == "") is own


def test_no_process_outlives_a_boot() -> None:
    view = make_view(make_mount("/home/me", "/me", "ext4"), namespace=CONTAINER, first=False)
    assert view.find_obstacle("/home/me/x.jsonl", 10.0, BOOT - 2) == ""
    assert view.find_obstacle("/home/me/x.jsonl", 10.0, BOOT + 2)
    assert view.find_obstacle("/home/me/x.jsonl", 10.0, None)


def test_hidden_processes_of_other_users_are_an_obstacle() -> None:
    view = make_view(first=False)
    assert not view.is_clear
    assert "hidepid" in view.find_obstacle("/home/me/x.jsonl", 1500.0, 1600.0)


def test_a_person_can_say_that_all_is_visible() -> None:
    view = make_view(
        make_mount("/home", "/", "nfs4"), namespace=CONTAINER, first=False, AGENTCTL_ALONE="1"
    )
    assert view.is_clear
    assert view.find_obstacle("/home/me/x.jsonl", None, None) == ""
    assert not view.is_on_network("/home/me/x.jsonl")


def test_the_innermost_and_latest_mount_decides(tmp_path: Path) -> None:
    inner = str(tmp_path)
    view = make_view(
        make_mount(inner, "/", "ext4"),
        make_mount(inner, "/", "nfs"),
        make_mount(f"{inner}-other", "/", "ext4"),
    )
    assert view.is_on_network(f"{inner}/x")
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    assert view.is_on_network(f"{link}/x")


def test_a_file_may_be_on_another_file_system_than_its_directory(tmp_path: Path) -> None:
    """It may be a link, or be mounted by itself. The directory is looked up once."""
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.mkdir()
    (near / "link").symlink_to(far / "x")
    (near / "back").symlink_to("/")
    view = make_view(make_mount(str(far), "/", "nfs"), make_mount(f"{near}/mounted", "/m", "nfs"))
    for name, remote in (("plain", False), ("link", True), ("mounted", True), ("back/etc", False)):
        assert view.is_on_network(f"{near}/{name}") is remote, name
    assert view.is_on_network(f"{near}/back{far}/x")


def test_unreadable_mounts_may_all_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountinfo, "OWN", "/nonexistent")
    monkeypatch.setattr(proc, "pid_namespace", lambda: INITIAL_PID_NAMESPACE)
    view = visibility.read_visibility(make_table(), BOOT, {})
    assert not view.is_clear
    assert view.find_obstacle("/home/me/x.jsonl", 1500.0, 1600.0) == MOUNTS_HIDDEN
    assert view.find_obstacle("/home/me/x.jsonl", 10.0, 20.0) == MOUNTS_HIDDEN  # before our boot
    assert view.is_on_network("/home/me/x.jsonl")
    alone = visibility.read_visibility(make_table(), BOOT, {"AGENTCTL_ALONE": "1"})
    assert alone.is_clear
    assert not alone.is_on_network("/home/me/x.jsonl")


def test_an_unreadable_namespace_may_be_a_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proc, "pid_namespace", lambda: "")
    assert not visibility.read_visibility(make_table(), BOOT, {}).is_clear


@pytest.mark.parametrize(
    ("ids", "own"),
    [
        ("         0          0 4294967295\n", True),
        ("0 1000 1\n1 100000 65536\n", True),  # a container of a user
        ("0 1000 1\n", False),  # `unshare -Ur`
        (None, True),  # a kernel without user namespaces
    ],
)
def test_layers_of_a_container_around_a_sandbox_may_be_shared(
    ids: str | None, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What began in the sandbox still counts as begun inside."""
    path = tmp_path / "uid_map"
    if ids is not None:
        path.write_text(ids)
    monkeypatch.setattr(proc, "read_uid_map", lambda: procfs.read_system_file(str(path)))
    view = make_view(make_mount("/", "/", "overlay"), namespace=CONTAINER)
    assert (view.find_obstacle("/home/me/x.jsonl", 1500.0, 2600.0) == "") is own
    assert view.find_obstacle("/home/me/x.jsonl", 2500.0, 2600.0) == ""


def test_layers_may_be_shared_where_our_user_map_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "read_uid_map", lambda: procfs.read_system_file(str(tmp_path)))
    view = make_view(make_mount("/", "/", "overlay"), namespace=CONTAINER)
    assert "pid namespace" in view.find_obstacle("/home/me/x.jsonl", 1500.0, 2600.0)


def test_our_user_map_is_read_once_and_only_for_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_call() -> bool:
        calls.append(1)
        return False

    calls: list[int] = []
    monkeypatch.setattr(visibility, "_maps_one_id", count_call)
    plain = make_view(namespace=CONTAINER)
    assert plain.find_obstacle("/x", 1500.0, 2600.0)
    assert calls == []
    layered = make_view(make_mount("/", "/", "overlay"), namespace=CONTAINER)
    assert [layered.find_obstacle("/x", 1500.0, 2600.0) for _ in range(3)] == [""] * 3
    assert calls == [1]
