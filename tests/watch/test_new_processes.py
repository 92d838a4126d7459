"""Who is new, without reading everybody."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from agentctl.errors import Gone
from agentctl.system import proc
from agentctl.watch.new_processes import Births
from tests.waiting import until

RENAMED = (
    "import sys; sys.stdin.readline(); open('/proc/self/comm','w').write('other'); sys.stdin.read()"
)


@pytest.fixture
def births() -> Iterator[Births]:
    made = Births()
    yield made
    made.close()


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", RENAMED], stdin=subprocess.PIPE) as made:
        yield made
        made.kill()


def test_a_new_process_is_told_once(births: Births, child: "subprocess.Popen[bytes]") -> None:
    found: list[int] = []

    def seen() -> bool:
        found.extend(process.pid for process in births.new() if process.parent == os.getpid())
        return child.pid in found

    until(seen, "the child is found")
    comms = len(found)
    for _ in range(3):
        births.new()
    assert comms == len(found)


def test_one_that_becomes_another_program_is_told_again(
    births: Births, child: "subprocess.Popen[bytes]"
) -> None:
    until(lambda: child.pid in {p.pid for p in births.new()}, "it began")
    assert child.stdin is not None
    child.stdin.write(b"go\n")
    child.stdin.flush()
    until(lambda: (child.pid, "other") in {(p.pid, p.comm) for p in births.new()}, "it is another")


def test_one_that_began_just_before_we_came_is_told_of_like_a_new_one(
    child: "subprocess.Popen[bytes]",
) -> None:
    """At the first look it may not have been what it is."""
    births = Births()
    try:
        assert child.pid in {process.pid for process in births.new()}
        assert child.pid not in {process.pid for process in births.new()}
    finally:
        births.close()


def test_one_that_began_before_we_came_and_becomes_another_later(
    child: "subprocess.Popen[bytes]",
) -> None:
    births = Births()
    try:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        until(lambda: (child.pid, "other") in {(p.pid, p.comm) for p in births.new()}, "it is told")
    finally:
        births.close()


def test_one_that_has_ended_already_is_nobody(births: Births) -> None:
    subprocess.run(["/bin/true"], check=True)
    assert all(process.comm != "true" for process in births.new())


def test_a_number_may_be_given_out_before_its_process_is_there(
    births: Births, child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_yet(pid: int, _: str) -> NoReturn:
        raise Gone(f"proc:{pid}", "no such process")

    with monkeypatch.context() as patch:
        patch.setattr(proc, "read_process", not_yet)
        assert child.pid not in {process.pid for process in births.new()}
    assert child.pid in {process.pid for process in births.new()}
