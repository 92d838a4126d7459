"""Which processes may run a session that none is bound to."""

import os
import subprocess
import time

import pytest

from agentctl.errors import Forbidden
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.testing.player import wait_for_program
from agentctl.truth.look import Look
from agentctl.truth.suspects import find_suspects, make_gone_evidence
from tests.truth.strategies import make_process

OTHER_USER = 65534
INIT = {1: make_process(1, parent=0, start=0)}  # without it, others are hidden from us


@pytest.mark.parametrize(("started", "suspect"), [(90, True), (110, False)])
def test_a_process_that_began_before_the_write_is_a_suspect(started: int, suspect: bool) -> None:
    loose = make_process(10, start=started * 100)
    evidence = find_suspects([loose], boot_time=0.0, written_at=100.0)
    assert (evidence is not None) == suspect
    if evidence is not None:
        assert evidence.claim == "ambiguous"
        assert "pid 10" in evidence.note


@pytest.mark.parametrize("may", [True, False])
def test_an_adapter_may_exclude_a_suspect(may: bool) -> None:
    loose = make_process(10, start=9_000)
    evidence = find_suspects([loose], boot_time=0.0, written_at=100.0, may=lambda _: may)
    assert (evidence is not None) == may


def test_a_write_at_an_unknown_time_makes_any_process_a_suspect() -> None:
    loose = make_process(10, start=99_999)
    assert find_suspects([loose], boot_time=0.0, written_at=None) is not None


def test_without_suspects_the_owner_is_gone_by_the_kernel() -> None:
    assert find_suspects([], boot_time=0.0, written_at=5.0) is None
    evidence = make_gone_evidence(0)
    assert (evidence.claim, evidence.authority, evidence.address) == ("gone", "kernel", "/proc")


def test_a_write_after_the_look_hides_the_owner() -> None:
    look = Look(INIT, {}, now=time.time() - 1)
    assert look.find_evidence_without_owner(look.now - 1, path="/x").claim == "gone"
    assert look.find_evidence_without_owner(look.now + 0.5, path="/x").claim == "hidden"


def test_a_time_stamp_in_the_future_may_be_of_a_new_process() -> None:
    """Mostly the clock was set back: then no process is new, and the look knows all possible writers."""
    before = proc.read_table()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={"OURS": "yes"})
    try:
        wait_for_program(child.pid)
        with_it = {**before, child.pid: proc.read_process(child.pid, proc.read_boot_id())}
        for table, comms, claim in (
            (before, {"cat"}, "hidden"),
            (before, {"no-such-program"}, "gone"),
            (with_it, {"cat"}, "gone"),
        ):
            look = Look(table, {}, now=time.time(), confine="OURS=yes")
            look.comms = frozenset(comms)
            assert look.find_evidence_without_owner(look.now + 3600, path="/x").claim == claim
    finally:
        child.communicate(timeout=20)


@pytest.mark.parametrize(
    ("uid", "environ", "claim"),
    [
        (0, {}, "hidden"),  # as after `sudo -E`
        (os.geteuid(), {}, "hidden"),  # as seen from inside a user namespace
        (os.geteuid() + 1, {}, "gone"),
        (0, {"AGENTCTL_ALONE": "1"}, "gone"),
    ],
)
def test_a_process_with_withheld_settings_outside_of_the_confinement(
    uid: int, environ: dict[str, str], claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_forbidden(self: Process) -> dict[str, str]:
        raise Forbidden("/proc", "withheld")

    monkeypatch.setattr(Process, "environ", raise_forbidden)
    monkeypatch.setattr(Process, "uid", uid)
    outsider = proc.read_process(os.getpid(), proc.read_boot_id())
    look = Look({**INIT, outsider.pid: outsider}, environ, now=time.time(), confine="A=b")
    look.comms, look.owns = frozenset({outsider.comm}), lambda process: True
    assert look.find_evidence_without_owner(look.now - 1, path="/x").claim == claim


def test_another_user_s_process_is_no_suspect_for_our_session() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can start a process as another user")
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=OTHER_USER)
    try:
        wait_for_program(other.pid)
        its, ours = (proc.read_process(pid, proc.read_boot_id()) for pid in (other.pid, os.getpid()))
        look = Look(INIT, {}, now=time.time() + 60)
        look.unbound_processes = (its,)
        assert look.find_evidence_without_owner(look.now, uid=OTHER_USER, path="/x").claim == "ambiguous"
        assert look.find_evidence_without_owner(look.now, uid=4242, path="/x").claim == "gone"
        assert (
            look.find_evidence_without_owner(look.now, path="/x").claim == "ambiguous"
        )  # whose file it is is not known
        look.unbound_processes = (its, ours)
        assert look.find_evidence_without_owner(look.now, uid=4242, path="/x").note.startswith(
            f"pid {os.getpid()}:"
        )  # root may
    finally:
        other.communicate(timeout=20)


def test_an_ended_process_is_no_suspect() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    wait_for_program(child.pid)
    look = Look(INIT, {}, now=time.time() + 60)
    look.unbound_processes = (proc.read_process(child.pid, proc.read_boot_id()),)
    child.communicate(timeout=20)
    assert look.find_evidence_without_owner(look.now, uid=os.getuid(), path="/x").claim == "gone"


def test_a_clock_that_was_set_forward_excludes_no_suspect() -> None:
    """A process wrote, and then the clock skipped an hour, as after a sleep: counted from boot, it seems
    to have begun after its write. A time stamp of the kernel shows that it did not."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        wait_for_program(child.pid)
        its = proc.read_process(child.pid, proc.read_boot_id())
        assert its.find_start_time(0.0) < time.time()  # an earlier look made the kernel stamp it
        written_at = time.time()
        look = Look(INIT, {}, now=time.time() + 3600)
        look.unbound_processes = (proc.read_process(child.pid, proc.read_boot_id()),)
        assert abs(look.find_start_time(its) - written_at) < 60
        assert look.find_evidence_without_owner(written_at, path="/x").claim == "ambiguous"
        assert look.find_evidence_without_owner(written_at - 1000, path="/x").claim == "gone", (
            "before it began by either clock"
        )
    finally:
        child.communicate(timeout=20)
