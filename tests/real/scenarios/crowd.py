"""Plays about an agent among other processes, alike for all: one inside another, with the pid of a dead
one, with its program replaced, with a prompt that no argument can hold."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

from agentctl.system import proc
from tests.ending import kill
from tests.real.actor import PATIENCE, make_prompt

if TYPE_CHECKING:
    from agentctl.system.proc import ProcessIdentity
    from tests.real.actor import Actor
    from tests.real.lab import Lab


def long_prompt(lab: Lab, *words: str) -> None:
    """On standard input: one argument may have 128 KiB. `words` make the agent read it."""
    text = "all work and no play " * 10_000
    bare = [word for word in lab.recipe.headless("") if word]
    actor = lab.headless(f"[[gate=%]] {text}", form=lambda _: [*bare, *words], piped=True)
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def pid_reused(lab: Lab, program: str | None = None) -> None:
    """The records of the first one always show an open turn; its pid is another process's by now."""
    first = lab.headless("[[gate=%]] count", program=program)
    first.is_held()
    first.has_id()  # killed before it wrote anything, it would leave nothing to list
    first.unsettled()
    kill(first.process)
    first.is_gone(outcome="killed")
    first.unsettled()  # until the other one has a prompt, it may have this session open
    second = _again_with_pid(lab, first.process.pid, program)
    second.is_held()
    first.is_now("stopped", outcome="killed")
    second.opens()
    second.is_gone(outcome="completed")
    first.is_now("stopped", outcome="killed")


def upgraded(lab: Lab, source: str, name: str, *words: str) -> None:
    """Its program (a copy of `source`) is replaced as an installer does it: the kernel calls what runs
    deleted. The next one runs the new file."""
    program = lab.root / "private" / name
    program.parent.mkdir()
    shutil.copy(os.path.realpath(source), program)
    first = lab.headless("[[gate=%]] count", *words, program=str(program))
    first.is_held()
    newer = program.with_suffix(".new")
    shutil.copy(os.path.realpath(source), newer)
    newer.replace(program)
    assert os.readlink(f"/proc/{first.process.pid}/exe").endswith(" (deleted)")
    first.is_now("running")
    second = lab.headless("[[gate=%]] count", *words, program=str(program))
    second.is_held()
    for actor in (first, second):
        actor.is_now("running")
        actor.opens()
        actor.is_gone(outcome="completed")


def one_in_another(lab: Lab, comm: str, **markers: str) -> None:
    """Started by the outer one's shell tool, it inherits its markers, and is a session of its own.
    `markers`: of the process that started the outer one."""
    lab.environ.update(markers)
    mark, prompt = make_prompt("[[gate=%]] inner work")
    script = lab.work / "inner.sh"  # a file: the outer one's words are not to hold the inner one's mark
    script.write_text(f"{shlex.join([lab.program, *lab.recipe.headless(prompt)])} </dev/null\n")
    outer = lab.headless("[[tool=sh inner.sh]] [[gate=%]] outer work")
    note = lab.model.journal.wait("held", mark, gate=mark, deadline=PATIENCE)
    inner = lab.enters(_find_inside(outer, comm), mark)
    inner.is_now("running", since=note.at)
    outer.is_now("running", since=note.at)
    assert inner.has_id() != outer.has_id()
    inner.opens()
    inner.is_gone(outcome="completed")
    outer.is_held()
    outer.opens()
    outer.is_gone(outcome="completed")


def _again_with_pid(lab: Lab, pid: int, program: str | None) -> Actor:
    """The kernel assigns pids in order, and the room has its own. A thread of ours may get it: again."""
    while True:
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
            last.write(str(pid - 1))
        actor = lab.headless("[[gate=%]] count", program=program)
        if actor.process.pid == pid:
            return actor
        kill(actor.process)


def _find_inside(outer: Actor, comm: str) -> ProcessIdentity:
    """The agent below this one in the process tree."""
    table = proc.read_table()
    for process in table.values():
        above = process.parent
        while above > 1 and above in table and above != outer.process.pid:
            above = table[above].parent
        if above == outer.process.pid and process.comm.startswith(comm):
            return process.identity
    raise AssertionError(f"no {comm} below pid {outer.process.pid}")
