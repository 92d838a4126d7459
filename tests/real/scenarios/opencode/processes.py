"""OpenCode's processes: a server and its clients, one inside the other, and what becomes of a pid."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from typing import TYPE_CHECKING

from agentctl.truth import procfs
from tests.ending import kill
from tests.real.actor import marked
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from agentctl.truth.model import ProcessIdentity
    from tests.real.actor import Actor
    from tests.real.lab import Lab


def client_quits(lab: Lab) -> None:
    """A server with sessions of two directories; the client of one is killed, which only listens."""
    server = lab.headless("", form=lambda _: ["serve", "--port", "0"])
    url = _address(lab.root / "out0")
    server.is_now("idle")
    first, second = (_attached(lab, server, url, where) for where in ("here", "there"))
    client = lab.actors[1]
    client.signal(signal.SIGTERM)
    until(lambda: client.died_at is not None, "the client quits")
    for worker in (first, second):
        worker.is_now("running", since=client.died_at)
    first.opens()
    first.has_answer()
    second.is_now("running")
    second.opens()
    second.has_answer()
    for worker in (first, second):
        worker.unsettled()
    server.signal(signal.SIGKILL)
    for worker in (first, second):
        worker.is_gone(outcome="completed")


def _attached(lab: Lab, server: Actor, url: str, name: str) -> Actor:
    """A session that the server runs for a client."""
    where = str(lab.repository(lab.root / name))
    client = lab.headless(
        "[[gate=%]] count",
        form=lambda prompt: ["run", "--attach", url, "--dir", where, "--format", "json", prompt],
    )
    worker = lab.enters(server.process, client.mark)
    worker.is_held()
    return worker


def _address(told: Path) -> str:
    found: list[str] = []

    def is_there() -> bool:
        found[:] = re.findall(r"listening on (http://\S+)", told.read_text())
        return bool(found)

    until(is_there, "the server listens", 60.0)
    return found[0]


def long_prompt(lab: Lab) -> None:
    """More than one argument may hold."""
    text = "all work and no play " * 10_000
    actor = lab.headless(f"[[gate=%]] {text}", form=lambda _: lab.recipe.headless("")[:-1], piped=True)
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def pid_reused(lab: Lab) -> None:
    """An answer left open for ever by a process whose number another OpenCode now has."""
    first = lab.headless("[[gate=%]] count")
    first.is_held()
    first.unsettled()
    kill(first.process)
    first.is_gone(outcome="killed")
    second = _again_with_pid(lab, first.process.pid)
    second.is_held()
    first.is_now("stopped", since=first.died_at, outcome="killed")
    second.opens()
    second.is_gone(outcome="completed")


def _again_with_pid(lab: Lab, pid: int) -> Actor:
    """Pids are given in a row; the room has its own. A thread of ours may come between: once more."""
    while True:
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
            last.write(str(pid - 1))
        actor = lab.headless("[[gate=%]] count")
        if actor.process.pid == pid:
            return actor
        kill(actor.process)


def upgraded(lab: Lab) -> None:
    """The kernel then calls its program deleted."""
    program = lab.root / "private" / "opencode"
    program.parent.mkdir()
    shutil.copy(lab.program, program)
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
    """It inherits the outer one's markers (OPENCODE_PID and more) and is its own session."""
    mark, prompt = marked("[[gate=%]] inner work")
    script = lab.work / "inner.sh"
    script.write_text(f"exec {shlex.join([lab.program, *lab.recipe.headless(prompt)])} </dev/null\n")
    outer = lab.headless("[[tool=sh inner.sh]] [[gate=%]] outer work")
    held = lab.model.journal.wait("held", mark, gate=mark, deadline=60.0)
    inner = lab.enters(_inside(outer), mark)
    inner.is_now("running", since=held.at)
    outer.is_now("running", since=held.at)
    assert inner.who().session_id not in (None, outer.who().session_id)
    inner.opens()
    inner.is_gone(outcome="completed")
    outer.is_held()
    outer.opens()
    outer.is_gone(outcome="completed")


def _inside(outer: Actor) -> ProcessIdentity:
    """The OpenCode below that one."""
    table = procfs.read_table()
    for process in table.values():
        above = process.parent
        while above > 1 and above in table and above != outer.process.pid:
            above = table[above].parent
        if above == outer.process.pid and process.comm == "opencode":
            return process.identity
    raise AssertionError("no OpenCode in the OpenCode")
