"""Numbers of new processes, by a count that is ours or by the names in /proc."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.system import last_pid
from agentctl.system.last_pid import COUNTERS, Counter, Numbers
from tests.rooms import Room

WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]

# In a room: whether a new process is among the new numbers, and which file tells.
ASKS = """
import os, subprocess, sys
from agentctl.system.last_pid import Numbers
numbers = Numbers()
counter = numbers._counter
told = os.readlink(f"/proc/self/fd/{counter._fd}") if counter is not None else "names"
child = subprocess.Popen(["sleep", "60"])
found = child.pid in numbers.new()
child.kill(); child.wait()
print(told, found)
"""


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


@pytest.fixture
def room() -> Iterator[Room]:
    with Room() as made:
        yield made


def asked(room: Room) -> str:
    return room.python(ASKS)


def test_what_was_given_out_since() -> None:
    numbers = Numbers()
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as child:
        assert child.pid in numbers.new()
        child.kill()
    numbers.close()


def test_without_a_count_the_names_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_pid, "COUNTERS", ())
    numbers = Numbers()
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as child:
        assert child.pid in numbers.new()
        assert child.pid not in numbers.new()
        child.kill()
    numbers.close()


def test_a_count_that_breaks_later_is_not_used_any_more(
    tmp_path: Path, child: "subprocess.Popen[bytes]"
) -> None:
    numbers = Numbers()
    (tmp_path / "loadavg").write_bytes(b"")
    numbers.close()
    numbers._counter = Counter(str(tmp_path / "loadavg"))
    numbers._counter._raw = b"7"
    assert child.pid in numbers.new()
    assert child.pid not in numbers.new()
    numbers.close()


def test_more_than_can_be_asked_for(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_pid, "MANY", -1)
    numbers = Numbers()
    subprocess.run(["/bin/true"], check=True)
    assert child.pid in numbers.new()
    numbers.close()


@pytest.mark.parametrize(
    "content", [b"", b"0.00 0.00 1/99 x\n", b"0.00 0.00 0.00 0/0 0\n", b"0.1 0.2 0.3 1/800 4194000\n"],
    ids=["empty", "no number", "constant", "the host's"],
)  # fmt: skip
def test_a_loadavg_that_is_not_ours_is_not_believed(content: bytes, room: Room, tmp_path: Path) -> None:
    """As lxcfs and gVisor have it."""
    (tmp_path / "other").write_bytes(content)
    room.cover(COUNTERS[0], tmp_path / "other")
    if os.path.exists(COUNTERS[1]):  # not in every kernel
        assert asked(room) == f"{COUNTERS[1]} True"
        room.cover(COUNTERS[1], tmp_path / "other")
    assert asked(room) == "names True"


def test_our_own_loadavg_is_believed(room: Room) -> None:
    assert asked(room) == f"{COUNTERS[0]} True"
