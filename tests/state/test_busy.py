"""Another has our database to itself: it is waited for, unless it is suspended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl.errors import Passing
from agentctl.state import busy, db
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.pidfd import Handle
from tests.daemon.serving import home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, environ_of
from tests.waiting import DEADLINE, until

# Writes, and stops in the middle of it until it is told to go on.
WRITES = """
import sys
from agentctl.state import db
if len(sys.argv) > 2:  # as the daemon of this home
    from agentctl.daemon.lock import Singleton
    lock = Singleton(sys.argv[2])
    open("/proc/self/comm", "w").write("agentctl-daemon")
with db.transaction(sys.argv[1]) as connection:
    connection.execute("create table if not exists half (word)")
    print("in the middle", flush=True)
    sys.stdin.readline()
"""


class Writer:
    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        self.identity: ProcessIdentity = proc.read_process(child.pid, proc.boot_id()).identity

    def suspend(self) -> None:
        self._signal(signal.SIGSTOP)
        until(lambda: proc.read_process(self.identity.pid, self.identity.boot).state == "T", "it is")

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def finish(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()

    def _signal(self, number: signal.Signals) -> None:
        with Handle(self.identity) as handle:
            handle.signal(number)


@contextmanager
def started(stage: DemoStage, *words: str) -> Iterator[Writer]:
    """In the middle of its writing; ended when the test is done with it."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITES, *words],
        env=environ_of(stage),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"in the middle\n"
            yield Writer(child)
        finally:
            child.kill()


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "state.db")
    db.open_writable(made).close()
    return made


@pytest.fixture
def writer(stage: DemoStage, path: str) -> Iterator[Writer]:
    with started(stage, path) as process:
        yield process


def test_nobody_has_it(path: str) -> None:
    assert busy.holder(path) is None
    assert busy.holder(f"{path} that is not there") is None


def test_who_has_it_is_the_kernels_word(path: str, writer: Writer) -> None:
    found = busy.holder(path)
    assert found is not None
    assert (found.identity, found.suspended) == (writer.identity, False)
    writer.suspend()
    found = busy.holder(path)
    assert found is not None
    assert found.suspended
    writer.go_on()
    writer.finish()
    until(lambda: busy.holder(path) is None, "it has written")


def test_also_by_a_link(path: str, writer: Writer, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    found = busy.holder(str(tmp_path / "link" / "state.db"))
    assert found is not None
    assert found.identity == writer.identity


def test_who_is_suspended_is_not_waited_for(path: str, writer: Writer) -> None:
    writer.suspend()
    told_who = f"pid {writer.identity.pid}, which is suspended"
    with pytest.raises(Passing, match=told_who) as told, db.transaction(path):
        pass
    assert told.value.hint == f"kill -CONT {writer.identity.pid}"


def test_who_is_slow_is_waited_for(path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "SLICE", 0.05)
    done = threading.Event()

    def write() -> None:
        with db.transaction(path) as connection:
            assert connection.execute("select * from half").fetchall() == []
        done.set()

    waits = threading.Thread(target=write)
    waits.start()
    assert not done.wait(0.3)
    writer.finish()
    waits.join(DEADLINE)
    assert done.is_set()


def test_who_takes_too_long_is_named(path: str, writer: Writer) -> None:
    told_who = f"pid {writer.identity.pid}, has held it for too long"
    with pytest.raises(Passing, match=told_who), db.transaction(path, 0.1):
        pass


def test_a_connection_waits_as_long_afterwards_as_before(path: str) -> None:
    connection = db.open_writable(path, 7.0)
    with db.step(connection, path):
        assert connection.execute("pragma busy_timeout").fetchone() == (7000,)
    connection.close()


def test_a_launch_names_a_suspended_daemon_and_its_restart_helps(stage: DemoStage) -> None:
    home = home_of(stage)
    os.makedirs(home)
    launch = ("launch", "demo", "-p", "exit 0", "--cwd", str(stage.work))
    with started(stage, f"{home}/state.db", home) as daemon:
        daemon.suspend()
        ran = agentctl_of(stage, *launch)
        assert (ran.code, ran.out) == (1, "")
        (what, how) = ran.err.splitlines()
        pid = daemon.identity.pid
        assert what.endswith(f"state.db: locked by agentctl-daemon, pid {pid}, which is suspended")
        assert how == f"  kill -CONT {pid}, or: agentctl daemon restart"
        assert agentctl_of(stage, "daemon", "stop").code == 0, "it need not be continued first"
    assert agentctl_of(stage, *launch).code == 0
