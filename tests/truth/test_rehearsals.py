"""A rehearsal is seen by nobody outside it, and nothing else can be hidden as one."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentctl.errors import Exhausted, Gone
from agentctl.rehearsal import sandbox
from agentctl.system import proc
from agentctl.system.proc import Process
from agentctl.system.program import KEEPER
from agentctl.truth import rehearsals
from agentctl.truth.look import Look
from tests.waiting import until

REASON = sandbox.obstacle()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no room can be had here: {REASON}")
PROGRAM = [sys.executable, "-c", "print('ready', flush=True); input()"]


@contextmanager
def running(words: list[str], **environ: str) -> Iterator[int]:
    """The number of a process that has said that it is ready."""
    process = subprocess.Popen(
        words, env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.communicate(b"\n")


def below(pid: int) -> list[Process]:
    """What this process has started, nearest first."""
    table = proc.read_table()
    found, parents = [], {pid}
    while parents:
        nearest = [p for p in table.values() if p.parent in parents]
        found += nearest
        parents = {p.pid for p in nearest}
    return found


def test_what_is_in_a_rehearsal_is_not_there_for_others() -> None:
    with running(sandbox.words(PROGRAM, maker="proc:7@9")) as pid:
        keeper, program = below(pid)
        (found,) = [r for r in rehearsals.rooms(proc.read_table()) if r.keeper.pid == keeper.pid]
        assert found.maker == "proc:7@9"
        assert [p.pid for p in found.inside] == [program.pid]
        seen = Look.take({}).table
        assert pid in seen, "whoever made the room is outside it"
        assert not {keeper.pid, program.pid} & set(seen)


def test_one_that_has_lost_its_parent_in_there_is_still_inside() -> None:
    orphan = "import os; os.fork() and os._exit(0); print('ready', flush=True); input()"
    keep = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]]); sys.stdin.read()"
    )
    with running(sandbox.words([sys.executable, "-c", keep, orphan], maker="proc:7@9")) as pid:
        until(lambda: len(below(pid)) == 3, "the one between has ended")
        inside = below(pid)
        assert not {p.pid for p in inside} & set(Look.take({}).table)


def test_in_a_rehearsal_everybody_is_seen() -> None:
    script = (
        "from agentctl.truth.look import Look; print(*sorted(Look.take({}).table)); "
        "print('ready', flush=True); input()"
    )
    words = sandbox.words([sys.executable, "-c", script], maker="proc:7@9")
    done = subprocess.run(words, input=b"\n", capture_output=True, check=True)
    assert done.stdout.split()[:2] == [b"1", b"2"]


@pytest.mark.parametrize(
    "words",
    [
        sandbox.words(PROGRAM),  # a room that is no rehearsal, as in the lab
        [
            *PROGRAM,
            rehearsals.PROGRAM,
            rehearsals.WORD,
            "proc:7@9",
            "--",
        ],  # here, in our own pid namespace
        ["/bin/sh", "-c", 'exec "$@"', rehearsals.PROGRAM, *PROGRAM],
    ],
)
def test_a_word_hides_nobody(words: list[str]) -> None:
    with running(words, **{sandbox.ROOM: "1"}) as pid:
        family = {pid, *(p.pid for p in below(pid))}
        assert family <= set(Look.take({}).table)


def test_a_name_hides_nobody() -> None:
    named = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, {KEEPER.encode()!r}, 0, 0, 0); "
        "print('ready', flush=True); input()"
    )
    with running([sys.executable, "-c", named, rehearsals.PROGRAM, rehearsals.WORD, "proc:7@9"]) as pid:
        assert proc.read_table()[pid].comm == KEEPER
        assert pid in Look.take({}).table


def test_it_is_not_there_while_it_ends() -> None:
    """Its first process is the last to go, and has no arguments any more."""
    children = (
        "import os, time\n"
        "for _ in range(20):\n"
        "    if not os.fork(): time.sleep(1000)\n"
        "print('ready', flush=True); input()"
    )
    process = subprocess.Popen(
        sandbox.words([sys.executable, "-c", children], maker="proc:7@9"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    inside = {p.identity for p in below(process.pid)}
    assert len(inside) == 22
    process.kill()
    process.wait()

    def ended() -> bool:
        seen = {p.identity for p in Look.take({}).table.values() if p.alive}
        assert not inside & seen, "an agent of a rehearsal that ends"
        return not any((p := proc.current(i)) is not None and p.alive for i in inside)

    until(ended, "the room has ended", beat=0)
    process.communicate()


@pytest.mark.parametrize("argv", [(), None])
def test_one_that_ends_while_we_look_hides_those_that_end_with_it(
    argv: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments are gone, or all of it, though the table shows it alive. Those that live on were in
    no room."""
    words = sandbox.words([sys.executable, "-c", "input()"], maker="proc:7@9")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        until(lambda: len(below(process.pid)) == 2, "there is a program in the room")
        until(lambda: below(process.pid)[0].comm == KEEPER, "the room has its name")
        keeper, program = below(process.pid)
        table = proc.read_table()

    def ended(self: Process) -> tuple[str, ...]:
        if argv is None:
            raise Gone("/proc", "it has ended")
        return argv

    monkeypatch.setattr(Process, "argv", property(ended))
    monkeypatch.setattr(Process, "inner_pid", lambda self: 1)
    ours = proc.read_process(os.getpid(), proc.boot_id())
    survivor = Process(ours.identity, keeper.pid, "S", "survivor")
    seen = rehearsals.without({**table, os.getpid(): survivor})
    assert program.pid not in seen
    assert os.getpid() in seen


def test_one_that_cannot_be_asked_for_want_of_a_descriptor_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Process) -> int:
        raise Exhausted(self.identity.address, "too many open files")

    ours = proc.read_process(os.getpid(), proc.boot_id())
    table = {ours.pid: Process(ours.identity, ours.parent, "S", KEEPER)}
    monkeypatch.setattr(Process, "inner_pid", refuse)
    assert rehearsals.without(table) == table
