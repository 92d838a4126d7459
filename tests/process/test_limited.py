"""Commands with a time limit: output, exit code, and no process left when one takes too long."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.errors import Forbidden, SourceError, TimedOut
from agentctl.process import limited
from agentctl.process.limited import kill_tree, run_command
from agentctl.process.ours import HOOK
from agentctl.system import proc
from agentctl.system.proc import Process
from tests.waiting import until

MARKER = f"test-limited/{os.getpid()}"
STUBBORN = "trap '' TERM INT; sleep 1000 & (setsid sleep 1000 &) ; echo begun; wait"


def run_marked(tmp_path: Path, command: str, limit: float = 20.0) -> int | None:
    with limited.open_output(str(tmp_path), str(tmp_path / "said")) as output:
        words = ["/bin/sh", "-c", command]
        child = limited.start_command(words, str(tmp_path), dict(os.environ), MARKER, output)
    return limited.wait_for_command(child, MARKER, limit)


def test_exit_code_and_output(tmp_path: Path) -> None:
    assert run_marked(tmp_path, "echo yes; echo no >&2; exit 3") == 3
    assert (tmp_path / "said").read_text() == "yes\nno\n"
    assert (tmp_path / "said").stat().st_mode & 0o777 == 0o600
    assert run_marked(tmp_path, "kill -9 $$") == -9
    assert (tmp_path / "said").read_text() == ""


def test_a_command_that_takes_too_long_is_killed_with_its_descendants(tmp_path: Path) -> None:
    command = "setsid sleep 600 & echo $! >child; exec sleep 600"
    assert run_marked(tmp_path, command, 0.5) is None
    assert (tmp_path / "child").read_text()
    assert [p for p in proc.read_table().values() if limited.has_marker(p, MARKER)] == []


def test_no_terminal_and_no_input(tmp_path: Path) -> None:
    assert run_marked(tmp_path, "cat; test ! -t 1") == 0


def test_output_can_be_appended(tmp_path: Path) -> None:
    for word in (b"one ", b"two"):
        with limited.open_output(
            str(tmp_path / "new"), str(tmp_path / "new" / "said"), append=True
        ) as output:
            output.write(word)
    assert (tmp_path / "new" / "said").read_bytes() == b"one two"


def test_no_place_for_the_output(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError) as raised:
        limited.open_output(str(tmp_path / "file" / "below"), "x")
    assert not isinstance(raised.value, Forbidden)


def test_a_process_that_ended_has_no_marker(tmp_path: Path) -> None:
    with limited.open_output(str(tmp_path), str(tmp_path / "said")) as output:
        child = limited.start_command(["/bin/cat"], str(tmp_path), {}, MARKER, output)
    process = proc.read_process(child.pid, proc.read_boot_id())
    child.wait()
    until(lambda: not limited.has_marker(process, MARKER), "it is gone")


def test_captured_output(tmp_path: Path) -> None:
    result = run_command(["/bin/sh", "-c", "pwd; cat; echo $A >&2; exit 2"], "/", {"A": "b"}, 20.0)
    assert result == (2, b"/\n", b"b\n")
    with pytest.raises(OSError, match="nowhere"):
        run_command(["/nowhere"], "/", {}, 20.0)


def test_a_captured_command_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", HOOK: str(tmp_path)}
    with pytest.raises(TimedOut, match=r"no answer in 0\.5 s"):
        run_command(["/bin/sh", "-c", "sleep 600 & touch begun; wait"], str(tmp_path), environ, 0.5)
    assert (tmp_path / "begun").exists()
    assert living(tmp_path) == []


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {"PATH": "/usr/bin:/bin", HOOK: str(tmp_path)}
    with subprocess.Popen(["/bin/sh", "-c", STUBBORN], env=environ, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == b"begun\n"
        until(lambda: len(living(tmp_path)) == 3, "the shell and its two children live")
        yield shell
        kill_tree(shell.pid, lambda process: limited.has_marker(process, str(tmp_path)))


def living(tmp_path: Path) -> list[Process]:
    return [p for p in proc.read_table().values() if limited.has_marker(p, str(tmp_path))]


def test_kill_a_tree(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    kill_tree(child.pid, lambda process: limited.has_marker(process, str(tmp_path)))
    assert living(tmp_path) == []


def test_only_a_marker_finds_a_process_with_another_parent(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    kill_tree(child.pid)
    (survivor,) = living(tmp_path)
    assert survivor.comm == "sleep"


def test_kill_a_child_that_ended() -> None:
    with subprocess.Popen(["/bin/true"]) as child:
        until(lambda: not proc.read_table()[child.pid].is_alive, "it is a zombie")
        kill_tree(child.pid)
