"""Codex's processes: launcher, native program, daemon and its client, one inside the other."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

from agentctl.truth import procfs
from tests.ending import kill
from tests.real.actor import marked
from tests.waiting import until

if TYPE_CHECKING:
    from agentctl.truth.model import ProcessIdentity
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
    """As people have it: the TUI is a client, a daemon does the work."""
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
    worker.is_held()
    worker.opens()
    worker.has_answer()


def long_prompt(lab: Lab) -> None:
    """More than one argument may hold."""
    text = "all work and no play " * 10_000
    actor = lab.headless(
        f"[[gate=%]] {text}", form=lambda _: [*lab.recipe.headless("")[:-1], "-"], piped=True
    )
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def pid_reused(lab: Lab) -> None:
    """A lock file and an open turn, left by a process whose number another Codex now has."""
    program = native_program(lab)
    first = lab.headless("[[gate=%]] count", program=program)
    first.is_held()
    first.unsettled()
    kill(first.process)
    first.is_gone(outcome="killed")
    second = _again_with_pid(lab, program, first.process.pid)
    assert second.process.pid == first.process.pid
    second.is_held()
    first.is_now("stopped", since=first.died_at, outcome="killed")
    second.opens()
    second.is_gone(outcome="completed")


def upgraded(lab: Lab) -> None:
    """The kernel then calls its program deleted."""
    program = lab.root / "private" / "codex"
    program.parent.mkdir()
    shutil.copy(native_program(lab), program)
    actor = lab.headless("[[gate=%]] count", program=str(program))
    actor.is_held()
    newer = program.with_suffix(".new")
    newer.write_text("#!/bin/sh\n")
    newer.replace(program)
    assert os.readlink(f"/proc/{actor.process.pid}/exe").endswith(" (deleted)")
    actor.is_now("running")
    actor.opens()
    actor.is_gone(outcome="completed")


def agent_in_an_agent(lab: Lab) -> None:
    """It inherits the outer one's markers (CODEX_THREAD_ID and more) and is its own session."""
    mark, prompt = marked("[[gate=%]] inner work")
    script = lab.work / "inner.sh"
    script.write_text(f"exec {shlex.join([lab.program, *lab.recipe.headless(prompt)])} </dev/null\n")
    outer = lab.headless("[[tool=sh inner.sh]] [[gate=%]] outer work")
    held = lab.model.journal.wait("held", mark, gate=mark)
    inner = lab.enters(_inside(outer), mark)
    inner.is_now("running", since=held.at)
    outer.is_now("running", since=held.at)
    assert inner.has_id() != outer.has_id()
    inner.opens()
    inner.is_gone(outcome="completed")
    outer.is_held()
    outer.opens()
    outer.is_gone(outcome="completed")


def native_program(lab: Lab) -> str:
    """What the launcher starts."""
    modules = lab.pin.place / "node_modules"
    (found,) = modules.glob("@openai/codex-linux-*/vendor/*/bin/codex")
    return str(found)


def _with_daemon(lab: Lab) -> tuple[Actor, Actor]:
    """A TUI as people start it, and the daemon that its thread runs in."""
    lab.recipe = lab.recipe._replace(interactive=())
    client = lab.tui()
    return client, lab.enters(_daemon(), client.mark)


def _daemon() -> ProcessIdentity:
    found: list[ProcessIdentity] = []

    def is_there() -> bool:
        table = procfs.read_table().values()
        found[:] = [p.identity for p in table if p.alive and "--managed-daemon" in p.argv]
        return bool(found)

    until(is_there, "the daemon is there")
    return found[0]


def _says(client: Actor, worker: Actor, script: str) -> None:
    worker.unsettled()
    client.says(script)
    worker.mark = client.mark


def _inside(outer: Actor) -> ProcessIdentity:
    """The native Codex below that one."""
    table = procfs.read_table()
    for process in table.values():
        above = process.parent
        while above > 1 and above in table and above != outer.process.pid:
            above = table[above].parent
        if above == outer.process.pid and process.comm == "codex":
            return process.identity
    raise AssertionError("no Codex in the Codex")


def _again_with_pid(lab: Lab, program: str, pid: int) -> Actor:
    """Pids are given in a row; the room has its own. A thread of ours may come between: once more."""
    while True:
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
            last.write(str(pid - 1))
        actor = lab.headless("[[gate=%]] count", program=program)
        if actor.process.pid == pid:
            return actor
        kill(actor.process)
