"""Paths of a process in another mount namespace, as we reach them."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.mounts import MountMap, follow_links
from tests.fakes.container import unshare

Enter = Callable[..., Process]


@pytest.fixture
def enter() -> Iterator[Enter]:
    """Start a process in a mount namespace of its own, after it ran a script there."""
    running = []

    def start(script: str, beside: int | None = None) -> Process:
        inside = ["nsenter", f"--mount=/proc/{beside}/ns/mnt"] if beside else []
        child = subprocess.Popen(
            [*inside, *unshare(pids=False), "sh", "-ec", f"{script}\necho ready\nexec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        running.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        process = proc.read_process(child.pid, proc.read_boot_id())
        assert process.cwd is not None
        return process

    yield start
    for child in running:
        child.communicate()


def resolve(process: Process, path: Path | str) -> str:
    return Look.take({}).scope_to("demo").resolve_path(process, str(path))


def test_a_file_system_of_its_own_is_reached_through_proc(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}; echo inside > {tmp_path}/file")
    there = resolve(process, tmp_path / "file")
    assert there == f"/proc/{process.pid}/root{tmp_path}/file"
    assert Path(there).read_text() == "inside\n"
    assert resolve(process, tmp_path / "not" / "yet") == f"/proc/{process.pid}/root{tmp_path}/not/yet"


def test_a_shared_path_keeps_its_name(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}")
    assert resolve(process, "/usr/bin") == "/usr/bin"
    assert resolve(process, "/usr/bin/not-there") == "/usr/bin/not-there"
    assert resolve(process, "relative") == f"{os.getcwd()}/relative"


def test_a_directory_of_ours_under_another_name_has_ours(tmp_path: Path, enter: Enter) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "ours" / "file").touch()
    process = enter(f"mount --bind {tmp_path}/ours {tmp_path}/theirs")
    for name in ("", "/file", "/not-yet"):
        assert resolve(process, f"{tmp_path}/theirs{name}") == f"{tmp_path}/ours{name}"


def test_names_with_blanks_are_decoded(tmp_path: Path, enter: Enter) -> None:
    ours, theirs = tmp_path / "our own\tplace", tmp_path / "their\\ place"
    ours.mkdir()
    theirs.mkdir()
    process = enter(f"mount --bind '{ours}' '{theirs}'")
    assert resolve(process, theirs) == str(ours)


def test_a_directory_with_a_mount_below_is_not_ours(tmp_path: Path, enter: Enter) -> None:
    """The directory is ours, but not all that is in it."""
    (tmp_path / "home" / "projects").mkdir(parents=True)
    process = enter(f"mount -t tmpfs none {tmp_path}/home/projects")
    assert resolve(process, tmp_path / "home") == f"/proc/{process.pid}/root{tmp_path}/home"


def test_a_file_mounted_alone_is_reached_through_proc(tmp_path: Path, enter: Enter) -> None:
    """The file beside it, such as the log of a database, is another one."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.db").write_text(name)
    process = enter(f"mount --bind {tmp_path}/a/agent.db {tmp_path}/b/agent.db")
    there = resolve(process, tmp_path / "b" / "agent.db")
    assert there == f"/proc/{process.pid}/root{tmp_path}/b/agent.db"
    assert Path(there).read_text() == "a"


def test_links_are_followed_as_the_process_would(tmp_path: Path, enter: Enter) -> None:
    """An absolute link below /proc/PID/root would lead us into our own tree."""
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    home.mkdir()
    (data / "file").write_text("ours\n")
    process = enter(
        f"mount -t tmpfs none {data}; echo theirs > {data}/file\n"
        f"mount -t tmpfs none {home}; ln -s {data} {home}/.agent; ln -s ../data/file {home}/up"
    )
    for name in (".agent/file", "up"):
        there = resolve(process, home / name)
        assert there == f"/proc/{process.pid}/root{data}/file"
        assert Path(there).read_text() == "theirs\n"


def test_a_file_mounted_in_one_of_two_containers_is_resolved_for_each(
    tmp_path: Path, enter: Enter
) -> None:
    """Both have a directory of ours, and one of them has another file in it."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "file").write_text("shared")
    look = Look.take({}).scope_to("demo")
    first = enter(f"mount -t tmpfs none {tmp_path}/a || true")
    second = enter(f"mount --bind {tmp_path}/b {tmp_path}/shared/file")
    path = str(tmp_path / "shared" / "file")
    assert Path(look.resolve_path(first, path)).read_text() == "shared"
    assert Path(look.resolve_path(second, path)).read_text() == "b"


def test_a_volume_of_two_containers_has_one_name(tmp_path: Path, enter: Enter) -> None:
    """We cannot see the volume ourselves. The process that we resolve first gives the name."""
    if os.geteuid() != 0:
        pytest.skip("needs root: only root enters another's namespace to share something in it")
    first = enter(f"mount -t tmpfs none {tmp_path}; mkdir {tmp_path}/x {tmp_path}/y")
    second = enter(f"mount --bind {tmp_path}/x {tmp_path}/y", first.pid)
    look = Look.take({}).scope_to("demo")
    path = look.resolve_path(first, f"{tmp_path}/x")
    assert path == f"/proc/{first.pid}/root{tmp_path}/x"
    assert look.resolve_path(second, f"{tmp_path}/y") == path
    assert look.resolve_path(second, f"{tmp_path}/y/file") == f"{path}/file"


def test_a_path_of_an_ended_process_is_no_problem(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}")
    child = subprocess.Popen(["true"])
    child.wait()
    look = Look.take({}).scope_to("demo")
    dead = proc.Process(process.identity._replace(pid=child.pid), 1, "S", "demo")
    dead.mount_namespace = "mnt:[1]"
    assert look.resolve_path(dead, "/A") == f"/proc/{child.pid}/root/A"
    assert look.problems == []


def test_a_withheld_namespace_is_recognised_by_its_mounts(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}")
    assert MountMap().is_elsewhere(process)
    assert not MountMap().is_elsewhere(proc.read_process(os.getpid(), proc.read_boot_id()))
    process.mount_namespace = None
    assert resolve(process, tmp_path) == f"/proc/{process.pid}/root{tmp_path}"


def test_link_loops_and_dots_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("/loop")
    (tmp_path / "up").symlink_to("../../../x")
    assert follow_links(str(tmp_path), "/loop/file") == "/loop/file"
    assert follow_links(str(tmp_path), "/up") == "/x"
    assert follow_links(str(tmp_path), "/../a/./b//c/..") == "/a/b"
    assert follow_links(str(tmp_path), "/") == "/"
