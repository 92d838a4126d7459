"""Claude Code's own background jobs: a supervisor runs them, and runs them again when they die."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from agentctl.system import clock, proc
from agentctl.system.proc import ProcessIdentity
from tests.real.actor import PATIENCE, Actor, make_prompt
from tests.real.scenarios.claude_code.sessions import STARTING
from tests.real.tmux import Terminal
from tests.waiting import until

if TYPE_CHECKING:
    from tests.real.lab import Lab


def _job(lab: Lab, script: str) -> Actor:
    mark, prompt = make_prompt(script)
    command = [lab.program, "--bg", prompt]
    subprocess.run(
        command, env=lab.environ, cwd=lab.work, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return lab.enters(_worker(lab), mark)


def _worker(lab: Lab, after: Actor | None = None) -> ProcessIdentity:
    """The process that runs the only job. A spare may take the job, and its arguments do not show it:
    then the supervisor's list does, a moment later. `after`: another process than this one's."""
    old = after.process.pid if after else 0
    workers: list[ProcessIdentity] = []

    def is_there() -> bool:
        current = _read_roster_pid(lab)
        for process in proc.read_table().values():
            if not process.is_alive or process.pid == old or not process.comm.startswith("claude"):
                continue
            # a process that is just ending has no arguments any more
            last = "".join(process.argv[-1:])
            respawned = after is not None and last.endswith(f"{after.session_id}.jsonl")
            if process.pid == current or (respawned and "--bg-pty-host" not in process.argv):
                workers.append(process.identity)
        return bool(workers)

    until(is_there, "a process runs the job", PATIENCE)
    return workers[0]


def _read_roster_pid(lab: Lab) -> int:
    try:
        workers = json.loads((lab.home / ".claude/daemon/roster.json").read_text())["workers"]
    except (FileNotFoundError, ValueError):  # not there yet, or caught while it is written
        return 0
    return next((int(worker.get("replPid", 0)) for worker in workers.values()), 0)


def client_quits(lab: Lab) -> None:
    """Both kinds of client: one that starts a job, and one that shows it in a terminal."""
    actor = _job(lab, "[[gate=%]] count")
    actor.is_held()
    attach = [lab.program, "attach", actor.has_id()[:8]]
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
    first.has_id()
    first.signal(signal.SIGKILL)
    first.is_gone(outcome="killed")
    first.unsettled()  # at any moment the supervisor gives its session to another process
    last = lab.model.journal.last
    worker = _worker(lab, after=first)
    began = clock.boot_time(time.time()) + worker.start / proc.TICKS
    second = lab.enters(worker, first.mark, first.session_id, since=began)
    second.is_now("running", blind=STARTING)
    second.plays_out(after=last)
