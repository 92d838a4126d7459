"""A person's command: its output kept, its code told, and nothing of it left when it takes too long."""

import os
from pathlib import Path

import pytest

from agentctl.errors import Forbidden, SourceError
from agentctl.process import limited
from agentctl.system import proc
from tests.waiting import until

MARKER = f"test-chore/{os.getpid()}"


def ran(tmp_path: Path, command: str, limit: float = 20.0) -> int | None:
    with limited.kept(str(tmp_path), str(tmp_path / "said")) as output:
        words = ["/bin/sh", "-c", command]
        child = limited.started(words, str(tmp_path), dict(os.environ), MARKER, output)
    return limited.awaited(child, MARKER, limit)


def test_how_it_ended_and_what_it_said(tmp_path: Path) -> None:
    assert ran(tmp_path, "echo yes; echo no >&2; exit 3") == 3
    assert (tmp_path / "said").read_text() == "yes\nno\n"
    assert (tmp_path / "said").stat().st_mode & 0o777 == 0o600
    assert ran(tmp_path, "kill -9 $$") == -9
    assert (tmp_path / "said").read_text() == ""


def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    command = "setsid sleep 600 & echo $! >child; exec sleep 600"
    assert ran(tmp_path, command, 0.5) is None
    left = [p for p in proc.read_table().values() if limited.marked(p, MARKER)]
    assert left == []


def test_it_has_no_terminal_and_nothing_to_read(tmp_path: Path) -> None:
    assert ran(tmp_path, "cat; test ! -t 1") == 0


def test_output_can_be_added_to(tmp_path: Path) -> None:
    for word in (b"one ", b"two"):
        with limited.kept(str(tmp_path / "new"), str(tmp_path / "new" / "said"), anew=False) as output:
            output.write(word)
    assert (tmp_path / "new" / "said").read_bytes() == b"one two"


def test_no_place_to_keep_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceError) as told:
        limited.kept(str(tmp_path / "file" / "below"), "x")
    assert not isinstance(told.value, Forbidden)


def test_one_that_has_ended_is_not_marked_any_more(tmp_path: Path) -> None:
    with limited.kept(str(tmp_path), str(tmp_path / "said")) as output:
        child = limited.started(["/bin/cat"], str(tmp_path), {}, MARKER, output)
    process = proc.read_process(child.pid, proc.boot_id())
    child.wait()
    until(lambda: not limited.marked(process, MARKER), "it is gone")
