"""The daemon is ended, and proven to have ended; no other process is."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentctl.daemon_client import lock_file, stop
from agentctl.daemon_client.lock_file import Holder
from agentctl.errors import NotFound, TimedOut
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from tests.daemon.serving import daemon_of, home_of
from tests.ending import is_gone
from tests.fakes.demo import DemoStage
from tests.running import environ_of


def test_the_daemon_is_asked_to_end(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    stopped = stop.stop_daemon(home_of(stage))
    assert (stopped.pid, stopped.how) == (identity.pid, "asked")
    assert is_gone(identity)
    with pytest.raises(NotFound):
        stop.stop_daemon(home_of(stage))


# Holds the lock of a home, listens on no socket, and ignores every signal that can be ignored.
DEAF = """
import signal, sys
from agentctl.daemon.lock import Singleton
signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = Singleton(sys.argv[1])
print("held", flush=True)
signal.pause()
"""


def test_a_daemon_without_a_socket_is_signalled(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    os.rename(f"{home_of(stage)}/daemon.sock", f"{home_of(stage)}/moved")
    stopped = stop.stop_daemon(home_of(stage))
    assert stopped.pid == identity.pid
    assert is_gone(identity)


def test_a_suspended_daemon_is_continued_and_ends(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with Handle(identity) as handle:
        handle.signal(signal.SIGSTOP)
    stopped = stop.stop_daemon(home_of(stage), patience=0.2, grace=20.0)
    assert (stopped.pid, stopped.how) == (identity.pid, "SIGTERM")
    assert is_gone(identity)


@pytest.mark.slow
def test_a_daemon_that_hangs_is_killed_by_force_only(stage: DemoStage) -> None:
    command = [sys.executable, "-c", DEAF, home_of(stage)]
    with subprocess.Popen(command, env=environ_of(stage), stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"held\n"
            with pytest.raises(TimedOut, match="has not ended within"):
                stop.stop_daemon(home_of(stage), patience=0.2, grace=0.2)
            assert child.poll() is None
            stopped = stop.stop_daemon(home_of(stage), force=True, patience=0.2, grace=5.0)
            assert (stopped.pid, stopped.how) == (child.pid, "SIGKILL")
            assert child.wait(20) == -signal.SIGKILL
        finally:
            child.kill()


def test_a_process_that_a_forged_file_names_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        its = proc.read_process(victim.pid, proc.read_boot_id()).identity
        forged = Holder(its, None, "0.1.0", f"{tmp_path}/daemon.sock", time.time())
        fd = os.open(lock_file.lock_file(str(tmp_path)), os.O_RDWR | os.O_CREAT, 0o600)
        os.write(fd, forged.to_bytes())
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(NotFound):
            stop.stop_daemon(str(tmp_path), force=True, grace=0.2)
        assert victim.poll() is None
        os.close(fd)
        victim.kill()
