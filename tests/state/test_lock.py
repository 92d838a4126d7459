"""Whether a lock is held: asked of the kernel or the clock, never remembered."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentctl.state.lock import Lock
from agentctl.system import proc
from agentctl.system.identity import ProcessIdentity
from agentctl.system.proc import namespace
from tests.fakes.stranger import Stranger
from tests.waiting import until


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Stranger]:
    with Stranger("somebody", {"PATH": "/usr/bin:/bin"}, tmp_path) as made:
        yield made


def _of(identity: ProcessIdentity, within: str | None = None) -> Lock:
    return Lock("/d", "1a", identity, within or namespace(), None, None, 0.0, None)


def test_it_is_held_exactly_as_long_as_its_owner_lives(stranger: Stranger) -> None:
    lock = _of(stranger.identity)
    assert lock.held
    stranger.end()
    assert not lock.held


def test_a_zombie_holds_nothing() -> None:
    child = subprocess.Popen(["sleep", "60"])
    lock = _of(proc.read_process(child.pid, proc.boot_id()).identity)
    assert lock.held
    child.kill()
    until(lambda: proc.read_process(child.pid, "").state == "Z", "it is a zombie")
    assert not lock.held
    child.wait()


def test_one_that_has_the_pid_now_holds_nothing(stranger: Stranger) -> None:
    identity = stranger.identity
    assert not _of(identity._replace(start=identity.start - 1)).held
    assert not _of(identity._replace(start=identity.start + 1)).held


def test_nobody_survives_a_boot(stranger: Stranger) -> None:
    before = stranger.identity._replace(boot="another boot")
    for within in (namespace(), "pid:[1]"):
        assert not _of(before, within).held
        assert not _of(before, within).foreign


def test_an_owner_where_we_cannot_look_counts_as_alive(stranger: Stranger) -> None:
    """The pid may be anybody's here, or nobody's: neither tells anything."""
    for pid in (stranger.pid, 2**22 + 1):
        lock = _of(stranger.identity._replace(pid=pid), "pid:[1]")
        assert lock.foreign
        assert lock.held
        assert lock.holder == f"launch 1a, pid {pid} in another container"


def test_a_person_s_own_is_held_until_its_time_is_over() -> None:
    lock = Lock("/d", "", None, None, "me", "because", 0.0, None)
    assert lock.held
    assert lock._replace(expires_at=time.time() + 60).held
    assert not lock._replace(expires_at=time.time() - 1).held
    assert not lock.foreign


def test_who_it_is(stranger: Stranger) -> None:
    lock = _of(stranger.identity)
    assert lock.holder == f"launch 1a, pid {stranger.pid}"
    named = lock._replace(session_id="4f2a", name="the name")
    assert named.holder == f"session 4f2a (the name), pid {stranger.pid}"
    person = Lock("/d", "", None, None, "me", "because", 0.0, None)
    assert person.holder == "me (because)"
    assert person._replace(by=None, reason=None).holder == "a person"
