"""Codex's processes: launcher, native program, daemon and its client, one inside the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentctl.errors import Gone
from agentctl.system import proc
from tests.ending import kill
from tests.waiting import until

if TYPE_CHECKING:
    from agentctl.system.proc import Process, ProcessIdentity
    from tests.real.actor import Actor
    from tests.real.lab import Lab


def wrapper_killed(lab: Lab) -> None:
    """Node's end is not Codex's: it works on, as an orphan."""
    actor = lab.headless("[[gate=%]] hello")
    actor.is_held()
    assert actor.launcher != actor.process
    kill(actor.launcher)
    actor.is_now("running")
    actor.opens()
    actor.is_gone(outcome="completed")


def client_quits(lab: Lab) -> None:
    """With default settings the TUI is a client, and a daemon does the work."""
    client, worker = _with_daemon(lab)
    worker.is_now("idle")
    _says(client, worker, "[[gate=%]] count")
    worker.is_held()
    client.presses("C-c")
    client.terminal.shows("Run in background")
    client.presses("Down", "Enter")
    until(lambda: client.died_at is not None, "the client quits")
    worker.is_now("running", since=client.died_at)
    worker.opens()
    worker.has_answer()


def daemon_killed(lab: Lab) -> None:
    """The turn is lost while its client lives on; another client brings daemon and thread back."""
    client, worker = _with_daemon(lab)
    _says(client, worker, "[[gate=%]] count")
    worker.is_held()
    worker.unsettled()
    kill(worker.process)
    worker.is_gone(outcome="killed")
    session_id = worker.has_id()
    client.terminal.close()
    worker.unsettled()  # from now on another process has its thread
    again = lab.tui("resume", session_id, session_id=session_id)
    worker = lab.enters(_daemon(), again.mark, session_id)
    worker.is_now("idle")
    _says(again, worker, "[[gate=%]] go on")
    worker.plays_out()


def native_program(lab: Lab) -> str:
    """The program that the launcher starts."""
    modules = lab.pin.place / "node_modules"
    (program,) = modules.glob("@openai/codex-linux-*/vendor/*/bin/codex")
    return str(program)


def _with_daemon(lab: Lab) -> tuple[Actor, Actor]:
    """A TUI as people start it, and the daemon that runs its thread."""
    lab.recipe = lab.recipe._replace(interactive=())
    client = lab.tui()
    return client, lab.enters(_daemon(), client.mark)


def _daemon() -> ProcessIdentity:
    daemons: list[ProcessIdentity] = []

    def is_there() -> bool:
        table = proc.read_table().values()
        daemons[:] = [p.identity for p in table if p.is_alive and "--managed-daemon" in _words(p)]
        return bool(daemons)

    until(is_there, "the daemon is there")
    return daemons[0]


def _words(process: Process) -> tuple[str, ...]:
    try:
        return process.argv
    except Gone:  # ended since the table was read
        return ()


def _says(client: Actor, worker: Actor, script: str) -> None:
    worker.unsettled()
    client.says(script)
    worker.mark = client.mark
