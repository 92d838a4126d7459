"""Claude Code among other processes: inside another one, under a wrapper, upgraded, its pid reused."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from agentctl.truth import procfs
from tests.real.actor import PATIENCE, Actor, identity_of, marked
from tests.real.scenarios import common

if TYPE_CHECKING:
    from tests.real.lab import Lab

LOST = "it inherited CLAUDE_CODE_CHILD_SESSION, and keeps neither record nor transcript"


def from_another_ones_shell(lab: Lab) -> None:
    """Each is told as what it is, with its own id. At a terminal, one that inherits the mark of a child
    keeps no file at all: it is seen, but nothing outside tells what it does."""
    mark, prompt = marked("[[gate=%]] count")
    script = (
        lab.work / "inner.sh"
    )  # a file, so that the outer one's words do not hold the inner one's mark
    script.write_text(shlex.join([lab.program, *lab.recipe.headless(prompt)]))
    outer = lab.headless(f"[[tool=sh {script.name}]] work")
    lab.model.journal.wait("held", mark, deadline=PATIENCE)
    inner = lab.enters(identity_of(_below(outer)), mark)
    inner.is_held()
    outer.is_now("running")
    inner.opens()
    inner.is_gone(outcome="completed")
    outer.is_gone(outcome="completed")
    lost = lab.tui(CLAUDE_CODE_CHILD_SESSION="1")
    lost.is_now("idle", blind=LOST)
    rows = [row for row in lab.rows() if row["pid"] == lost.process.pid]
    assert [(row["id"], row["status"], row["activity"]) for row in rows] == [
        (None, "running", "unknown")
    ]


def _below(outer: Actor) -> int:
    """The agent among what this one has started."""
    table = procfs.read_table()
    family = {outer.process.pid}
    for process in sorted(table.values(), key=lambda one: one.identity.start):
        if process.parent in family:
            family.add(process.pid)
    (found,) = (pid for pid in family - {outer.process.pid} if table[pid].comm.startswith("claude"))
    return found


def wrapper_killed(lab: Lab) -> None:
    """It has no wrapper of its own, but people write them."""
    mark, prompt = marked("[[gate=%]] count")
    words = shlex.join([lab.program, *lab.recipe.headless(prompt)])
    wrapper = subprocess.Popen(
        ["/bin/sh", "-c", f"{words}; true"], env=lab.environ, cwd=lab.work, stdin=subprocess.DEVNULL
    )
    note = lab.model.journal.wait("held", mark, deadline=PATIENCE)
    children = Path(f"/proc/{wrapper.pid}/task/{wrapper.pid}/children").read_text().split()
    actor = lab.enters(identity_of(int(children[0])), mark)
    actor.is_now("running", since=note.at)
    wrapper.kill()
    wrapper.wait()
    actor.is_now("running")
    actor.opens()
    actor.is_gone(outcome="completed")


def big_prompt(lab: Lab) -> None:
    """On standard input: one argument may have 128 KiB."""
    text = "a word of many " * 14_000
    bare = [word for word in lab.recipe.headless("") if word]
    actor = lab.headless(f"[[gate=%]] {text}", form=lambda _: bare, piped=True)
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def upgraded(lab: Lab) -> None:
    """The file that it was started from is replaced, as an installer does it."""
    ours = lab.root / "bin" / "claude"
    ours.parent.mkdir()
    shutil.copy(os.path.realpath(lab.program), ours)
    first = lab.headless("[[gate=%]] count", program=str(ours))
    first.is_held()
    first.unsettled()
    (ours.parent / "new").symlink_to(os.path.realpath(lab.program))
    os.replace(ours.parent / "new", ours)
    assert os.readlink(f"/proc/{first.process.pid}/exe").endswith(" (deleted)")
    first.is_now("running")
    second = lab.headless("[[gate=%]] count", program=str(ours))
    second.is_held()
    first.is_now("running")
    for actor in (first, second):
        actor.opens()
        actor.is_gone(outcome="completed")


def pid_of_the_dead_reused(lab: Lab) -> None:
    """Killed, it leaves a record that says busy; then the kernel gives its pid to another one."""
    first = lab.headless("[[gate=%]] count")
    first.is_held()
    first.signal(signal.SIGKILL)
    first.is_gone(outcome="killed")
    second = common.again_with_pid(lab, first.process.pid)
    first.is_now("stopped", outcome="killed")
    second.is_held()
    first.is_now("stopped", outcome="killed")
    second.opens()
    second.is_gone(outcome="completed")
    first.is_now("stopped", outcome="killed")
