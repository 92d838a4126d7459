"""The daemon is ended, and shown to have ended; nobody else is."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.control import dismiss, holder
from agentctl.control.holder import Holder
from agentctl.errors import NotFound, TimedOut
from agentctl.truth import procfs
from agentctl.truth.pidfd import Handle
from tests.daemon.serving import daemon_of, home_of
from tests.ending import is_gone
from tests.fakes.demo import DemoStage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[DemoStage]:
    made = DemoStage(tmp_path)
    yield made
    made.close()


def test_it_is_asked(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    ended = dismiss.end(home_of(stage))
    assert (ended.pid, ended.how) == (identity.pid, "asked")
    assert is_gone(identity)
    with pytest.raises(NotFound):
        dismiss.end(home_of(stage))


def test_without_a_socket_it_is_signalled(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with Handle(identity) as handle:
        handle.signal(signal.SIGSTOP)
        os.rename(f"{home_of(stage)}/daemon.sock", f"{home_of(stage)}/moved")
        with pytest.raises(TimedOut, match="has not ended within"):
            dismiss.end(home_of(stage), patience=0.2, grace=0.2)
        handle.signal(signal.SIGCONT)
        assert handle.wait(20), "it was signalled: now that it can, it ends"


def test_one_that_hangs_is_killed_if_that_is_wanted(stage: DemoStage) -> None:
    identity = daemon_of(stage)
    with Handle(identity) as handle:
        handle.signal(signal.SIGSTOP)
    with pytest.raises(TimedOut):
        dismiss.end(home_of(stage), patience=0.2, grace=0.2)
    assert not is_gone(identity)
    ended = dismiss.end(home_of(stage), force=True, patience=0.2, grace=0.2)
    assert (ended.pid, ended.how) == (identity.pid, "SIGKILL")
    assert is_gone(identity)


def test_a_process_that_a_forged_file_names_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        its = procfs.read_process(victim.pid, procfs.boot_id()).identity
        forged = Holder(its, None, "0.1.0", f"{tmp_path}/daemon.sock", time.time())
        fd = os.open(holder.lock_file(str(tmp_path)), os.O_RDWR | os.O_CREAT, 0o600)
        os.write(fd, forged.written())
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(NotFound):
            dismiss.end(str(tmp_path), force=True, grace=0.2)
        assert victim.poll() is None
        os.close(fd)
        victim.kill()
