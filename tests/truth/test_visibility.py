"""What cannot be seen from here: each limit, and where it does not count."""

from pathlib import Path

import pytest

from agentctl.system import mountinfo
from agentctl.system.mountinfo import Mount
from agentctl.system.proc import TICKS, Process
from agentctl.truth import visibility
from agentctl.truth.visibility import INITIAL_PID_NAMESPACE, Sight
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


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "virtiofs"])
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
def test_in_a_container(shown: Mount, began: float | None, own: bool) -> None:
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


def test_without_a_table_of_mounts_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountinfo, "OWN", "/nonexistent")
    monkeypatch.setattr(visibility, "namespace_of_pids", lambda: INITIAL_PID_NAMESPACE)
    assert visibility.take(table(), BOOT, {}).clear
