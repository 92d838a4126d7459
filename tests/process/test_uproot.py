"""A child that takes too long goes with all that it has started."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.errors import SourceError
from agentctl.process.uproot import uproot
from agentctl.system import proc
from agentctl.system.proc import Process
from tests.waiting import until

SCRIPT = "trap '' TERM INT; sleep 1000 & (setsid sleep 1000 &) ; echo begun; wait"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {"PATH": "/usr/bin:/bin", "UPROOT": str(tmp_path)}
    with subprocess.Popen(["/bin/sh", "-c", SCRIPT], env=environ, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begun\n"
        until(lambda: len(_alive(tmp_path)) == 3, "the shell and its two sleepers are there")
        yield started
        uproot(started.pid, lambda process: _marked(process, tmp_path))


def _marked(process: Process, tmp_path: Path) -> bool:
    try:
        return process.environ().get("UPROOT") == str(tmp_path)
    except SourceError:
        return False


def _alive(tmp_path: Path) -> list[Process]:
    return [p for p in proc.read_table().values() if p.alive and _marked(p, tmp_path)]


def test_all_that_belongs_to_it(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    uproot(child.pid, lambda process: _marked(process, tmp_path))
    assert _alive(tmp_path) == []


def test_one_with_another_parent_is_found_by_its_mark_alone(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    uproot(child.pid)
    (left,) = _alive(tmp_path)
    assert left.comm == "sleep"


def test_one_that_has_ended_is_nobody(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        until(lambda: not proc.read_table()[ended.pid].alive, "it is a zombie")
        uproot(ended.pid)
