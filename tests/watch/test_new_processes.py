"""Finding new processes without reading all."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from agentctl.errors import Gone
from agentctl.system import proc
from agentctl.watch.new_processes import NewProcesses
from tests.waiting import until

RENAMED = (
    "import sys; sys.stdin.readline(); open('/proc/self/comm','w').write('other'); sys.stdin.read()"
)


@pytest.fixture
def new_processes() -> Iterator[NewProcesses]:
    processes = NewProcesses()
    yield processes
    processes.close()


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", RENAMED], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_new_process_is_listed_once(
    new_processes: NewProcesses, child: "subprocess.Popen[bytes]"
) -> None:
    pids: list[int] = []

    def has_child() -> bool:
        pids.extend(process.pid for process in new_processes.read() if process.parent == os.getpid())
        return child.pid in pids

    until(has_child, "the child is listed")
    for _ in range(3):
        has_child()
    assert pids.count(child.pid) == 1


def test_a_process_that_becomes_another_program_is_listed_again(
    new_processes: NewProcesses, child: "subprocess.Popen[bytes]"
) -> None:
    until(lambda: child.pid in {p.pid for p in new_processes.read()}, "it began")
    assert child.stdin is not None
    child.stdin.write(b"go\n")
    child.stdin.flush()
    until(
        lambda: (child.pid, "other") in {(p.pid, p.comm) for p in new_processes.read()}, "it is another"
    )


def test_a_process_that_began_just_before_is_listed_as_new(
    child: "subprocess.Popen[bytes]",
) -> None:
    """At the first look it may still have been another program."""
    new_processes = NewProcesses()
    try:
        assert child.pid in {process.pid for process in new_processes.read()}
        assert child.pid not in {process.pid for process in new_processes.read()}
    finally:
        new_processes.close()


def test_a_process_that_began_before_is_listed_when_it_becomes_another_program(
    child: "subprocess.Popen[bytes]",
) -> None:
    new_processes = NewProcesses()
    try:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        until(
            lambda: (child.pid, "other") in {(p.pid, p.comm) for p in new_processes.read()},
            "it is listed",
        )
    finally:
        new_processes.close()


def test_a_process_that_has_ended_is_not_listed(new_processes: NewProcesses) -> None:
    subprocess.run(["/bin/true"], check=True)
    assert all(process.comm != "true" for process in new_processes.read())


def test_a_pid_may_exist_before_its_process_can_be_read(
    new_processes: NewProcesses, child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_gone(pid: int, _: str) -> NoReturn:
        raise Gone(f"proc:{pid}", "no such process")

    with monkeypatch.context() as patch:
        patch.setattr(proc, "read_process", raise_gone)
        assert child.pid not in {process.pid for process in new_processes.read()}
    assert child.pid in {process.pid for process in new_processes.read()}
