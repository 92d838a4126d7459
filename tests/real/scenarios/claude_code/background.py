"""Claude Code's own background jobs: a supervisor runs them, and runs them again when they die."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from agentctl.truth import procfs
from agentctl.truth.model import ProcessIdentity
from tests.real.actor import PATIENCE, Actor, marked
from tests.real.tmux import Terminal
from tests.waiting import until

if TYPE_CHECKING:
    from tests.real.lab import Lab

RESTARTED = "Continue from where you left off"  # what the supervisor says to a job that it respawned


def _job(lab: Lab, script: str) -> Actor:
    mark, prompt = marked(script)
    command = [lab.program, "--bg", prompt]
    subprocess.run(
        command, env=lab.environ, cwd=lab.work, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    lab.model.journal.wait("asked", mark, deadline=PATIENCE)
    return lab.enters(_running(f"{mark} "), mark)


def _running(words: str) -> ProcessIdentity:
    """The process that runs the job: these words are in its arguments. Not the host of its terminal."""
    found: list[ProcessIdentity] = []

    def is_there() -> bool:
        for process in procfs.read_table().values():
            argv = " ".join(process.argv) if process.alive else ""
            if words in argv and "claude" in argv and "--bg-pty-host" not in argv:
                found.append(process.identity)
        return bool(found)

    until(is_there, f"a process runs {words}", PATIENCE)
    return found[0]


def client_quits(lab: Lab) -> None:
    """Both clients there are: who starts a job, and who looks at it in a terminal."""
    actor = _job(lab, "[[gate=%]] count")
    actor.is_held()
    assert actor.session_id is not None
    attach = [lab.program, "attach", actor.session_id[:8]]
    terminal = Terminal(lab.root / "tmux", attach, lab.environ, str(lab.work))
    terminal.shows(actor.mark)
    actor.is_now("running")
    terminal.close()
    actor.is_now("running")
    actor.opens()
    actor.has_answer()


def killed_and_respawned(lab: Lab) -> None:
    """It is dead until the supervisor has started it again; then the same session goes on."""
    first = _job(lab, "[[gate=%]] count")
    first.is_held()
    first.signal(signal.SIGKILL)
    first.is_gone(outcome="killed")
    second = lab.enters(_running(f"{first.session_id}.jsonl"), RESTARTED, first.session_id)
    second.is_now("running")
    second.has_answer()
