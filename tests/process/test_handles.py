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
from agentctl.process.handles import ProcessHandles, kill_all
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
    with ProcessHandles() as handles:
        assert handles.open(s.process for s in three) == 3
        assert handles.open(s.process for s in three) == 0, "each once"
        assert handles.identities == {s.identity for s in three}
        assert (handles.count_ended(), len(handles.list_living())) == (0, 3)
        assert handles.signal(signal.SIGTERM) == 3
        assert handles.wait(MONTHS)
        assert (handles.count_ended(), handles.list_living(), handles.list_survivors()) == (3, [], ())
        assert handles.signal(signal.SIGTERM) == 0


def test_survivors_are_named(three: list[Stranger]) -> None:
    with ProcessHandles() as handles:
        handles.open(s.process for s in three)
        three[0].end()
        assert not handles.wait(0.01)
        assert handles.count_ended() == 1
        assert [survivor.pid for survivor in handles.list_survivors()] == [three[1].pid, three[2].pid]
        assert handles.list_survivors()[0].why == "s1: does not end"


def test_a_process_that_has_ended_is_not_opened(three: list[Stranger]) -> None:
    processes = [s.process for s in three]
    three[0].end(reap=False)
    three[1].end()
    with ProcessHandles() as handles:
        assert handles.open(processes) == 1, "neither a zombie nor one that is gone"


def test_a_suspended_process_is_continued(three: list[Stranger]) -> None:
    with ProcessHandles() as handles:
        handles.open([three[0].process])
        with Handle(three[0].identity) as handle:
            handle.signal(signal.SIGSTOP)
        until(lambda: three[0].process.state == "T", "it is suspended")
        handles.signal(signal.SIGTERM)
        assert handles.wait(LONG)


def test_without_a_descriptor_a_process_is_not_taken_for_another_users(
    three: list[Stranger], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(identity: object) -> None:
        raise Exhausted("proc:7", "too many open files")

    with ProcessHandles() as handles:
        handles.open([three[0].process])
        with monkeypatch.context() as patched:
            patched.setattr(proc, "find_process", refuse)
            with pytest.raises(Exhausted):
                handles.signal(signal.SIGCONT)
        assert [survivor.why for survivor in handles.list_survivors()] == ["s0: does not end"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_a_process_of_another_user_is_a_survivor(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"], user=4242, group=4242) as child:
        wait_for_program(child.pid)
        survivors = _list_survivors_as_another_user(child.pid)
        child.kill()
    assert survivors == [[child.pid, "sleep: another user's process", "sleep 1000", None]], survivors


def _list_survivors_as_another_user(pid: int) -> list[list[object]]:
    """Signal the process as a third user would, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(4243)
        os.setuid(4243)
        with ProcessHandles() as handles:
            handles.open([proc.read_process(pid, proc.read_boot_id())])
            reached = handles.signal(signal.SIGTERM)
            refused = handles.wait(0.01) and not handles.list_living()  # no process to wait for
            survivors = handles.list_survivors() if not reached and refused else ()
        os.write(writing, json.dumps([list(each) for each in survivors]).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with open(reading, "rb") as pipe:
        answer: list[list[object]] = json.load(pipe)
    return answer


def test_processes_opened_unsignalled_are_not_signalled(three: list[Stranger]) -> None:
    with ProcessHandles() as handles:
        handles.open_unsignalled([three[0].process])
        handles.open(s.process for s in three)
        assert handles.signal(signal.SIGKILL) == 2
        assert handles.wait(LONG)
        assert [survivor[:2] for survivor in handles.list_survivors()] == [
            (three[0].pid, "s0: another user's process")
        ]
        assert three[0].process.is_alive


def test_no_descriptor_is_left_open(three: list[Stranger]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with ProcessHandles() as handles:
        handles.open(s.process for s in three)
        assert len(os.listdir("/proc/self/fd")) == before + 3
    assert len(os.listdir("/proc/self/fd")) == before


def test_kill_all_looks_until_there_is_no_new_process(three: list[Stranger]) -> None:
    """Each look shows one more, as if each process started the next; none is killed twice."""
    counts = []

    def find(identities: frozenset[object]) -> list[proc.Process]:
        counts.append(len(identities))
        return [s.process for s in three[: len(identities) + 1]]

    kill_all(find)
    assert counts == [0, 1, 2, 3]
    assert all(is_gone(stranger.process.identity) for stranger in three)
