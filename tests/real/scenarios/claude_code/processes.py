"""Claude Code among other processes: inside another one, under a wrapper, upgraded, its pid reused."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.real.actor import PATIENCE, identity_of, make_prompt
from tests.real.scenarios import crowd

if TYPE_CHECKING:
    from tests.real.lab import Lab

LOST = "it inherited CLAUDE_CODE_CHILD_SESSION, and keeps neither record nor transcript"


def from_another_ones_shell(lab: Lab) -> None:
    """Both are listed, each with its own id. At a terminal, one that inherits the marker of a child
    keeps no file at all: it is listed, but what it does is unknown."""
    crowd.one_in_another(lab, "claude")
    lost = lab.tui(CLAUDE_CODE_CHILD_SESSION="1")
    lost.is_now("idle", blind=LOST)
    rows = [row for row in lab.rows() if row["pid"] == lost.process.pid]
    assert [(row["id"], row["status"], row["activity"]) for row in rows] == [
        (None, "running", "unknown")
    ]


def wrapper_killed(lab: Lab) -> None:
    """It has no wrapper of its own, but people write some."""
    mark, prompt = make_prompt("[[gate=%]] count")
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
