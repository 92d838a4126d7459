"""Pids of new processes, by the counter of our pid namespace or by the names in /proc."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.system import last_pid
from agentctl.system.last_pid import COUNTERS, Counter, NewPids
from tests.rooms import Room

WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]

# Runs in a room. Prints which file is the source, and whether a new process is among the new pids.
ASKS = """
import os, subprocess, sys
from agentctl.system.last_pid import NewPids
numbers = NewPids()
counter = numbers._counter
source = os.readlink(f"/proc/self/fd/{counter._fd}") if counter is not None else "names"
child = subprocess.Popen(["sleep", "60"])
is_new = child.pid in numbers.take()
child.kill(); child.wait()
print(source, is_new)
"""


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


@pytest.fixture
def room() -> Iterator[Room]:
    with Room() as room:
        yield room


def run_question(room: Room) -> str:
    return room.python(ASKS)


def test_pids_given_out_since_the_last_call_are_new() -> None:
    numbers = NewPids()
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as child:
        assert child.pid in numbers.take()
        child.kill()
    numbers.close()


def test_without_a_counter_the_names_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_pid, "COUNTERS", ())
    numbers = NewPids()
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as child:
        assert child.pid in numbers.take()
        assert child.pid not in numbers.take()
        child.kill()
    numbers.close()


def test_a_counter_that_breaks_is_not_used_again(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    numbers = NewPids()
    (tmp_path / "loadavg").write_bytes(b"")
    numbers.close()
    numbers._counter = Counter(str(tmp_path / "loadavg"))
    numbers._counter._raw = b"7"
    assert child.pid in numbers.take()
    assert child.pid not in numbers.take()
    numbers.close()


def test_too_many_new_pids_are_replaced_by_the_names(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_pid, "MANY", -1)
    numbers = NewPids()
    subprocess.run(["/bin/true"], check=True)
    assert child.pid in numbers.take()
    numbers.close()


@pytest.mark.parametrize(
    "content", [b"", b"0.00 0.00 1/99 x\n", b"0.00 0.00 0.00 0/0 0\n", b"0.1 0.2 0.3 1/800 4194000\n"],
    ids=["empty", "no number", "constant", "the host's"],
)  # fmt: skip
def test_a_loadavg_that_is_not_ours_is_not_used(content: bytes, room: Room, tmp_path: Path) -> None:
    """As lxcfs and gVisor write it."""
    (tmp_path / "other").write_bytes(content)
    room.cover(COUNTERS[0], tmp_path / "other")
    if os.path.exists(COUNTERS[1]):  # not in every kernel
        assert run_question(room) == f"{COUNTERS[1]} True"
        room.cover(COUNTERS[1], tmp_path / "other")
    assert run_question(room) == "names True"


def test_our_own_loadavg_is_used(room: Room) -> None:
    assert run_question(room) == f"{COUNTERS[0]} True"
