"""Another process has our database to itself: we wait for it, unless it is suspended."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentctl.errors import Temporary
from agentctl.state import busy, db
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.system.proc import ProcessIdentity
from tests.daemon.serving import home_of
from tests.fakes.demo import DemoStage
from tests.running import agentctl_of, environ_of
from tests.waiting import DEADLINE, until

# Begins to write, and waits for a line before it goes on.
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
        self.identity: ProcessIdentity = proc.read_process(child.pid, proc.read_boot_id()).identity

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
def run_writer(stage: DemoStage, *words: str) -> Iterator[Writer]:
    """A writer in the middle of a transaction, which ends with the test."""
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
    file = str(tmp_path / "state.db")
    db.open_writable(file).close()
    return file


@pytest.fixture
def writer(stage: DemoStage, path: str) -> Iterator[Writer]:
    with run_writer(stage, path) as process:
        yield process


def test_a_free_database_has_no_holder(path: str) -> None:
    assert busy.find_holder(path) is None
    assert busy.find_holder(f"{path} that is not there") is None


def test_the_process_that_writes_is_the_holder(path: str, writer: Writer) -> None:
    holder = busy.find_holder(path)
    assert holder is not None
    assert (holder.identity, holder.is_suspended) == (writer.identity, False)
    writer.suspend()
    holder = busy.find_holder(path)
    assert holder is not None
    assert holder.is_suspended
    writer.go_on()
    writer.finish()
    until(lambda: busy.find_holder(path) is None, "it has written")


def test_the_holder_is_found_through_a_link(path: str, writer: Writer, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    holder = busy.find_holder(str(tmp_path / "link" / "state.db"))
    assert holder is not None
    assert holder.identity == writer.identity


def test_a_suspended_holder_is_not_waited_for(
    path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy, "SLICE", 0.05)
    writer.suspend()
    message = f"pid {writer.identity.pid}, which is suspended"
    with pytest.raises(Temporary, match=message) as caught, db.transaction(path):
        pass
    assert caught.value.hint == f"kill -CONT {writer.identity.pid}"


def test_a_slow_holder_is_waited_for(path: str, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "SLICE", 0.05)
    has_written = threading.Event()

    def write() -> None:
        with db.transaction(path) as connection:
            assert connection.execute("select * from half").fetchall() == []
        has_written.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not has_written.wait(0.3)
    writer.finish()
    thread.join(DEADLINE)
    assert has_written.is_set()


def test_a_holder_that_takes_too_long_is_named(path: str, writer: Writer) -> None:
    message = f"pid {writer.identity.pid}, has held it for too long"
    with pytest.raises(Temporary, match=message), db.transaction(path, 0.1):
        pass


def test_a_transaction_leaves_the_timeout_of_its_connection(path: str) -> None:
    connection = db.open_writable(path, 7.0)
    with db.begin_transaction(connection, path):
        assert connection.execute("pragma busy_timeout").fetchone() == (7000,)
    connection.close()


@pytest.mark.slow
def test_a_launch_names_a_suspended_daemon_and_its_restart_helps(stage: DemoStage) -> None:
    home = home_of(stage)
    os.makedirs(home)
    launch = ("launch", "demo", "-p", "exit 0", "--cwd", str(stage.work))
    with run_writer(stage, f"{home}/state.db", home) as daemon:
        daemon.suspend()
        ran = agentctl_of(stage, *launch)
        assert (ran.code, ran.out) == (1, "")
        (what, how) = ran.err.splitlines()
        pid = daemon.identity.pid
        assert what.endswith(f"state.db: locked by agentctl-daemon, pid {pid}, which is suspended")
        assert how == f"  kill -CONT {pid}, or: agentctl daemon restart"
        assert agentctl_of(stage, "daemon", "stop").code == 0, "it need not be continued first"
    assert agentctl_of(stage, *launch).code == 0
