"""A stored process is dead only where we can prove it."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from agentctl.system import proc
from agentctl.system.owner import Owner


def own_process() -> Owner:
    return Owner(proc.read_process(os.getpid(), proc.read_boot_id()).identity, proc.pid_namespace())


@pytest.fixture
def child() -> Iterator[tuple[subprocess.Popen[bytes], Owner]]:
    process = subprocess.Popen(["/bin/sleep", "60"])
    identity = proc.read_process(process.pid, proc.read_boot_id()).identity
    yield process, Owner(identity, proc.pid_namespace())
    process.kill()
    process.wait()


def test_this_process_lives_here() -> None:
    owner = own_process()
    assert owner.identity.pid == os.getpid()
    assert (owner.is_foreign, owner.may_live) == (False, True)


def test_a_process_that_has_ended_does_not_live(child: tuple[subprocess.Popen[bytes], Owner]) -> None:
    process, owner = child
    assert owner.may_live
    process.kill()
    process.wait()
    assert not owner.may_live
    assert not owner._replace(namespace=None).may_live, "an older agentctl stored no namespace"


def test_a_zombie_does_not_live(child: tuple[subprocess.Popen[bytes], Owner]) -> None:
    process, owner = child
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not owner.may_live


def test_a_reused_pid_is_another_process() -> None:
    owner = own_process()
    earlier = owner._replace(identity=owner.identity._replace(start=owner.identity.start - 1))
    assert not earlier.may_live


@pytest.mark.parametrize("namespace", ["pid:[1]", ""])
def test_an_absent_process_of_another_namespace_may_live(namespace: str) -> None:
    owner = own_process()
    absent = Owner(owner.identity._replace(start=1), namespace)
    assert (absent.is_foreign, absent.may_live) == (True, True)
    before = absent._replace(identity=absent.identity._replace(boot="before"))
    assert not before.is_foreign, "no process outlives a boot"
    assert not before.may_live


def test_a_namespace_that_cannot_be_read_is_never_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = own_process()
    monkeypatch.setattr(proc, "pid_namespace", lambda: "")
    assert owner.is_foreign
    assert owner._replace(namespace="").is_foreign
    assert not owner._replace(namespace=None).is_foreign
