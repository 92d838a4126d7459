"""Paths of a process in another mount namespace, as we reach them."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.truth.look import Look
from agentctl.truth.mounts import Reached, followed
from tests.fakes.container import unshare

Enter = Callable[..., Process]


@pytest.fixture
def enter() -> Iterator[Enter]:
    """A process in a mount namespace of its own, in which a script has been run."""
    running = []

    def entered(script: str, beside: int | None = None) -> Process:
        from_there = ["nsenter", f"--mount=/proc/{beside}/ns/mnt"] if beside else []
        child = subprocess.Popen(
            [*from_there, *unshare(pids=False), "sh", "-ec", f"{script}\necho ready\nexec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        running.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        process = proc.read_process(child.pid, proc.boot_id())
        assert process.cwd is not None
        return process

    yield entered
    for child in running:
        child.communicate()


def through(process: Process, path: Path | str) -> str:
    return Look.take({}).scoped("demo").through(process, str(path))


def test_a_file_system_of_its_own(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}; echo inside > {tmp_path}/file")
    there = through(process, tmp_path / "file")
    assert there == f"/proc/{process.pid}/root{tmp_path}/file"
    assert Path(there).read_text() == "inside\n"
    assert through(process, tmp_path / "not" / "yet") == f"/proc/{process.pid}/root{tmp_path}/not/yet"


def test_what_is_the_same_has_our_name(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}")
    assert through(process, "/usr/bin") == "/usr/bin"
    assert through(process, "/usr/bin/not-there") == "/usr/bin/not-there"
    assert through(process, "relative") == f"{os.getcwd()}/relative"


def test_a_directory_of_ours_under_another_name(tmp_path: Path, enter: Enter) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / "ours" / "file").touch()
    process = enter(f"mount --bind {tmp_path}/ours {tmp_path}/theirs")
    for name in ("", "/file", "/not-yet"):
        assert through(process, f"{tmp_path}/theirs{name}") == f"{tmp_path}/ours{name}"


def test_a_name_with_blanks(tmp_path: Path, enter: Enter) -> None:
    ours, theirs = tmp_path / "our own\tplace", tmp_path / "their\\ place"
    ours.mkdir()
    theirs.mkdir()
    process = enter(f"mount --bind '{ours}' '{theirs}'")
    assert through(process, theirs) == str(ours)


def test_a_mount_below_keeps_it_apart(tmp_path: Path, enter: Enter) -> None:
    """The directory is ours, but what is in it is not all."""
    (tmp_path / "home" / "projects").mkdir(parents=True)
    process = enter(f"mount -t tmpfs none {tmp_path}/home/projects")
    assert through(process, tmp_path / "home") == f"/proc/{process.pid}/root{tmp_path}/home"


def test_one_file_that_is_mounted_alone(tmp_path: Path, enter: Enter) -> None:
    """What is beside it is not: a database's log."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.db").write_text(name)
    process = enter(f"mount --bind {tmp_path}/a/agent.db {tmp_path}/b/agent.db")
    there = through(process, tmp_path / "b" / "agent.db")
    assert there == f"/proc/{process.pid}/root{tmp_path}/b/agent.db"
    assert Path(there).read_text() == "a"


def test_links_lead_to_where_the_process_would_go(tmp_path: Path, enter: Enter) -> None:
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
        there = through(process, home / name)
        assert there == f"/proc/{process.pid}/root{data}/file"
        assert Path(there).read_text() == "theirs\n"


def test_a_file_mounted_in_one_of_two_containers(tmp_path: Path, enter: Enter) -> None:
    """Both have a directory of ours, and one of them has another file in it."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "file").write_text("shared")
    look = Look.take({}).scoped("demo")
    first = enter(f"mount -t tmpfs none {tmp_path}/a || true")
    second = enter(f"mount --bind {tmp_path}/b {tmp_path}/shared/file")
    path = str(tmp_path / "shared" / "file")
    assert Path(look.through(first, path)).read_text() == "shared"
    assert Path(look.through(second, path)).read_text() == "b"


def test_two_containers_that_share_a_volume(tmp_path: Path, enter: Enter) -> None:
    """We do not see it ourselves. Whichever is asked first names it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: only root enters another's namespace to share something in it")
    first = enter(f"mount -t tmpfs none {tmp_path}; mkdir {tmp_path}/x {tmp_path}/y")
    second = enter(f"mount --bind {tmp_path}/x {tmp_path}/y", first.pid)
    look = Look.take({}).scoped("demo")
    named = look.through(first, f"{tmp_path}/x")
    assert named == f"/proc/{first.pid}/root{tmp_path}/x"
    assert look.through(second, f"{tmp_path}/y") == named
    assert look.through(second, f"{tmp_path}/y/file") == f"{named}/file"


def test_a_process_that_has_ended(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}")
    ended = subprocess.Popen(["true"])
    ended.wait()
    look = Look.take({}).scoped("demo")
    gone = proc.Process(process.identity._replace(pid=ended.pid), 1, "S", "demo")
    gone.mounts = "mnt:[1]"
    assert look.through(gone, "/A") == f"/proc/{ended.pid}/root/A"
    assert look.problems == []


def test_whose_namespace_is_withheld_is_told_by_its_mounts(tmp_path: Path, enter: Enter) -> None:
    process = enter(f"mount -t tmpfs none {tmp_path}")
    assert Reached().is_elsewhere(process)
    assert not Reached().is_elsewhere(proc.read_process(os.getpid(), proc.boot_id()))
    process.mounts = None
    assert through(process, tmp_path) == f"/proc/{process.pid}/root{tmp_path}"


def test_following_ends(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("/loop")
    (tmp_path / "up").symlink_to("../../../x")
    assert followed(str(tmp_path), "/loop/file") == "/loop/file"
    assert followed(str(tmp_path), "/up") == "/x"
    assert followed(str(tmp_path), "/../a/./b//c/..") == "/a/b"
    assert followed(str(tmp_path), "/") == "/"
