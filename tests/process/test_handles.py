"""Several handles at once."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentctl.errors import Exhausted
from agentctl.process.handles import Targets, kill_all
from agentctl.system import proc
from agentctl.system.pidfd import Handle
from agentctl.testing.player import wait_for_program
from tests.ending import is_gone
from tests.fakes.stranger import Stranger
from tests.waiting import until

LONG = 20.0
MONTHS = 90 * 86400.0  # in milliseconds more than poll takes
ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Stranger]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Stranger(f"s{n}", ENVIRON, tmp_path)) for n in range(3)]


def test_all_are_signalled_and_waited_for(three: list[Stranger]) -> None:
    with Targets() as targets:
        assert targets.open(s.process for s in three) == 3
        assert targets.open(s.process for s in three) == 0, "each once"
        assert targets.identities == {s.identity for s in three}
        assert (targets.ended(), len(targets.living())) == (0, 3)
        assert targets.signal(signal.SIGTERM) == 3
        assert targets.wait(MONTHS)
        assert (targets.ended(), targets.living(), targets.survivors()) == (3, [], ())
        assert targets.signal(signal.SIGTERM) == 0


def test_those_that_stay_are_named(three: list[Stranger]) -> None:
    with Targets() as targets:
        targets.open(s.process for s in three)
        three[0].end()
        assert not targets.wait(0.01)
        assert targets.ended() == 1
        assert [left.pid for left in targets.survivors()] == [three[1].pid, three[2].pid]
        assert targets.survivors()[0].why == "s1: does not end"


def test_one_that_has_ended_is_not_opened(three: list[Stranger]) -> None:
    processes = [s.process for s in three]
    three[0].end(reap=False)
    three[1].end()
    with Targets() as targets:
        assert targets.open(processes) == 1, "neither a zombie nor one that is gone"


def test_a_suspended_one_is_woken_to_hear_it(three: list[Stranger]) -> None:
    with Targets() as targets:
        targets.open([three[0].process])
        with Handle(three[0].identity) as handle:
            handle.signal(signal.SIGSTOP)
        until(lambda: three[0].process.state == "T", "it is suspended")
        targets.signal(signal.SIGTERM)
        assert targets.wait(LONG)


def test_for_want_of_a_descriptor_nobody_is_another_user(
    three: list[Stranger], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(identity: object) -> None:
        raise Exhausted("proc:7", "too many open files")

    with Targets() as targets:
        targets.open([three[0].process])
        with monkeypatch.context() as patched:
            patched.setattr(proc, "current", refuse)
            with pytest.raises(Exhausted):
                targets.signal(signal.SIGCONT)
        assert [left.why for left in targets.survivors()] == ["s0: does not end"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_users_is_told_by_the_kernel(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"], user=4242, group=4242) as child:
        wait_for_program(child.pid)
        told = _as_another(child.pid)
        child.kill()
    assert told == [[child.pid, "sleep: another user's process", "sleep 1000", None]], told


def _as_another(pid: int) -> list[list[object]]:
    """What a third user gets to hear, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(4243)
        os.setuid(4243)
        with Targets() as targets:
            targets.open([proc.read_process(pid, proc.boot_id())])
            reached = targets.signal(signal.SIGTERM)
            lives = targets.wait(0.01) and not targets.living()  # nothing is left that we may wait for
            told = [list(left) for left in targets.survivors()] if not reached and lives else []
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        answer: list[list[object]] = json.load(pipe)
    return answer


def test_those_that_are_only_named_are_not_signalled(three: list[Stranger]) -> None:
    with Targets() as targets:
        targets.name([three[0].process])
        targets.open(s.process for s in three)
        assert targets.signal(signal.SIGKILL) == 2
        assert targets.wait(LONG)
        assert [left[:2] for left in targets.survivors()] == [
            (three[0].pid, "s0: another user's process")
        ]
        assert three[0].process.alive


def test_no_descriptor_is_left_open(three: list[Stranger]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Targets() as targets:
        targets.open(s.process for s in three)
        assert len(os.listdir("/proc/self/fd")) == before + 3
    assert len(os.listdir("/proc/self/fd")) == before


def test_killed_until_a_look_finds_no_new_one(three: list[Stranger]) -> None:
    """One more at each look, as if each begot the next; none is met twice."""
    met = []

    def find(known: frozenset[object]) -> list[proc.Process]:
        met.append(len(known))
        return [s.process for s in three[: len(known) + 1]]

    kill_all(find)
    assert met == [0, 1, 2, 3]
    assert all(is_gone(stranger.process.identity) for stranger in three)
