"""Detached work: it is no descendant of the process that was called, and goes on without it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import SOURCES
from tests.waiting import until

_PROGRAM = """
import os, sys
from agentctl.process import detach

def work():
    with open(sys.argv[1], "w") as file:
        print(os.getpid(), os.getppid(), os.getsid(0), detach.calling_pid(), file=file)
    print("at work", flush=True)
    with open(sys.argv[2]) as pipe:
        pipe.read()
    with open(sys.argv[1], "a") as file:
        print("done", file=file)
    return 7

print(os.getpid(), flush=True)
sys.exit(detach.run_detached(work))
"""


class DetachedWork:
    """A process that has detached its work, which waits at a pipe."""

    def __init__(self, folder: Path) -> None:
        self.notes, self._pipe = folder / "notes", folder / "pipe"
        os.mkfifo(self._pipe)
        self.child = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(self.notes), str(self._pipe)],
            env={"PYTHONPATH": SOURCES},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == b"%d\n" % self.child.pid
        assert self.child.stdout.readline() == b"at work\n"

    def facts(self) -> list[int]:
        """Pid, parent, session and `calling_pid()` of the process that works."""
        return [int(word) for word in self.notes.read_text().split()[:4]]

    def finish(self) -> None:
        self._pipe.write_text("")
        until(lambda: self.notes.read_text().endswith("done\n"), "the work is done")


@pytest.fixture
def work(tmp_path: Path) -> Iterator[DetachedWork]:
    work = DetachedWork(tmp_path)
    yield work
    work.child.kill()
    work.child.communicate()


def test_the_exit_code_comes_back_from_work_that_is_no_descendant(work: DetachedWork) -> None:
    pid, parent, session, us = work.facts()
    assert us == work.child.pid
    assert work.child.pid not in (pid, parent, session)
    work.finish()
    assert work.child.wait(20) == 7


def test_the_work_goes_on_when_the_caller_is_killed_with_its_group(work: DetachedWork) -> None:
    os.killpg(work.child.pid, signal.SIGKILL)
    assert work.child.wait(20) == -signal.SIGKILL
    work.finish()
