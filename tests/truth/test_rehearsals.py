"""A rehearsal is hidden from all looks outside it, and nothing else can be hidden as one."""

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

REASON = sandbox.find_obstacle()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no room can be had here: {REASON}")
PROGRAM = [sys.executable, "-c", "print('ready', flush=True); input()"]


@contextmanager
def running(words: list[str], **environ: str) -> Iterator[int]:
    """Start a process and yield its pid once it is ready."""
    process = subprocess.Popen(
        words, env={**os.environ, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.communicate(b"\n")


def list_descendants(pid: int) -> list[Process]:
    """Return the descendants of this process, nearest first."""
    table = proc.read_table()
    descendants, parents = [], {pid}
    while parents:
        nearest = [p for p in table.values() if p.parent in parents]
        descendants += nearest
        parents = {p.pid for p in nearest}
    return descendants


def test_processes_in_a_rehearsal_are_hidden_outside() -> None:
    with running(sandbox.command_line(PROGRAM, maker="proc:7@9")) as pid:
        keeper, program = list_descendants(pid)
        (room,) = [r for r in rehearsals.find_sandboxes(proc.read_table()) if r.keeper.pid == keeper.pid]
        assert room.maker == "proc:7@9"
        assert [p.pid for p in room.processes] == [program.pid]
        table = Look.take({}).table
        assert pid in table, "the maker of the room is outside it"
        assert not {keeper.pid, program.pid} & set(table)


def test_an_orphan_in_a_rehearsal_is_hidden_outside() -> None:
    orphan = "import os; os.fork() and os._exit(0); print('ready', flush=True); input()"
    keep = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]]); sys.stdin.read()"
    )
    with running(sandbox.command_line([sys.executable, "-c", keep, orphan], maker="proc:7@9")) as pid:
        until(lambda: len(list_descendants(pid)) == 3, "the one between has ended")
        inside = list_descendants(pid)
        assert not {p.pid for p in inside} & set(Look.take({}).table)


def test_in_a_rehearsal_its_processes_are_seen() -> None:
    script = (
        "from agentctl.truth.look import Look; print(*sorted(Look.take({}).table)); "
        "print('ready', flush=True); input()"
    )
    words = sandbox.command_line([sys.executable, "-c", script], maker="proc:7@9")
    run = subprocess.run(words, input=b"\n", capture_output=True, check=True)
    assert run.stdout.split()[:2] == [b"1", b"2"]


@pytest.mark.parametrize(
    "words",
    [
        sandbox.command_line(PROGRAM),  # a room that is no rehearsal, as in the lab
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
def test_an_argument_hides_no_process(words: list[str]) -> None:
    with running(words, **{sandbox.IN_SANDBOX: "1"}) as pid:
        family = {pid, *(p.pid for p in list_descendants(pid))}
        assert family <= set(Look.take({}).table)


def test_a_process_name_hides_no_process() -> None:
    program = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, {KEEPER.encode()!r}, 0, 0, 0); "
        "print('ready', flush=True); input()"
    )
    with running(
        [sys.executable, "-c", program, rehearsals.PROGRAM, rehearsals.WORD, "proc:7@9"]
    ) as pid:
        assert proc.read_table()[pid].comm == KEEPER
        assert pid in Look.take({}).table


def test_a_rehearsal_is_hidden_while_it_ends() -> None:
    """Its first process ends last, and has no arguments any more."""
    children = (
        "import os, time\n"
        "for _ in range(20):\n"
        "    if not os.fork(): time.sleep(1000)\n"
        "print('ready', flush=True); input()"
    )
    process = subprocess.Popen(
        sandbox.command_line([sys.executable, "-c", children], maker="proc:7@9"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    inside = {p.identity for p in list_descendants(process.pid)}
    assert len(inside) == 22
    process.kill()
    process.wait()

    def has_ended() -> bool:
        alive = {p.identity for p in Look.take({}).table.values() if p.is_alive}
        assert not inside & alive, "an agent of a rehearsal that ends"
        return not any((p := proc.find_process(i)) is not None and p.is_alive for i in inside)

    until(has_ended, "the room has ended", beat=0)
    process.communicate()


@pytest.mark.parametrize("argv", [(), None])
def test_a_rehearsal_that_ends_while_we_look_hides_its_processes(
    argv: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper has no arguments any more, or has ended, though the table shows it alive. Processes
    that live on were in no room."""
    words = sandbox.command_line([sys.executable, "-c", "input()"], maker="proc:7@9")
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        until(lambda: len(list_descendants(process.pid)) == 2, "there is a program in the room")
        until(lambda: list_descendants(process.pid)[0].comm == KEEPER, "the room has its name")
        keeper, program = list_descendants(process.pid)
        table = proc.read_table()

    def read_argv(self: Process) -> tuple[str, ...]:
        if argv is None:
            raise Gone("/proc", "it has ended")
        return argv

    monkeypatch.setattr(Process, "argv", property(read_argv))
    monkeypatch.setattr(Process, "read_inner_pid", lambda self: 1)
    ours = proc.read_process(os.getpid(), proc.read_boot_id())
    survivor = Process(ours.identity, keeper.pid, "S", "survivor")
    visible = rehearsals.exclude_rehearsals({**table, os.getpid(): survivor})
    assert program.pid not in visible
    assert os.getpid() in visible


def test_a_keeper_that_cannot_be_read_without_a_descriptor_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Process) -> int:
        raise Exhausted(self.identity.address, "too many open files")

    ours = proc.read_process(os.getpid(), proc.read_boot_id())
    table = {ours.pid: Process(ours.identity, ours.parent, "S", KEEPER)}
    monkeypatch.setattr(Process, "read_inner_pid", refuse)
    assert rehearsals.exclude_rehearsals(table) == table
