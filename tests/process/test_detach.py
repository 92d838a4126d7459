"""Work that goes on where nobody finds it below the one that was called."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import SOURCES
from tests.waiting import until

_CALLED = """
import os, sys
from agentctl.process import detach

def work():
    with open(sys.argv[1], "w") as file:
        print(os.getpid(), os.getppid(), os.getsid(0), detach.us(), file=file)
    print("at work", flush=True)
    with open(sys.argv[2]) as pipe:
        pipe.read()
    with open(sys.argv[1], "a") as file:
        print("done", file=file)
    return 7

print(os.getpid(), flush=True)
sys.exit(detach.run(work))
"""


class Called:
    """One that has stepped aside, and waits at a pipe."""

    def __init__(self, folder: Path) -> None:
        self.notes, self._pipe = folder / "notes", folder / "pipe"
        os.mkfifo(self._pipe)
        self.child = subprocess.Popen(
            [sys.executable, "-c", _CALLED, str(self.notes), str(self._pipe)],
            env={"PYTHONPATH": SOURCES},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == b"%d\n" % self.child.pid
        assert self.child.stdout.readline() == b"at work\n"

    def facts(self) -> list[int]:
        """Pid, parent, session and `us()` of the one that works."""
        return [int(word) for word in self.notes.read_text().split()[:4]]

    def goes_on(self) -> None:
        self._pipe.write_text("")
        until(lambda: self.notes.read_text().endswith("done\n"), "the work is done")


@pytest.fixture
def called(tmp_path: Path) -> Iterator[Called]:
    made = Called(tmp_path)
    yield made
    made.child.kill()
    made.child.communicate()


def test_the_code_comes_back_and_the_work_is_not_below_the_one_that_was_called(called: Called) -> None:
    pid, parent, session, us = called.facts()
    assert us == called.child.pid
    assert called.child.pid not in (pid, parent, session)
    called.goes_on()
    assert called.child.wait(20) == 7


def test_it_goes_on_when_the_one_that_was_called_is_killed_with_its_group(called: Called) -> None:
    os.killpg(called.child.pid, signal.SIGKILL)
    assert called.child.wait(20) == -signal.SIGKILL
    called.goes_on()
