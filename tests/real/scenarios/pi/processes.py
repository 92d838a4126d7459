"""Pi's processes: one inside the other, with a long prompt, with the pid of a dead one, upgraded."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

from agentctl.truth import procfs
from tests.ending import kill
from tests.real.actor import marked
from tests.real.scenarios import common

if TYPE_CHECKING:
    from agentctl.truth.model import ProcessIdentity
    from tests.real.actor import Actor
    from tests.real.lab import Lab


def pi_in_a_pi(lab: Lab) -> None:
    """The outer one was started from Claude Code's shell; the inner one inherits both their markers."""
    mark, prompt = marked("[[gate=%]] inner work")
    script = lab.work / "inner.sh"
    script.write_text(f"{shlex.join([lab.program, *lab.recipe.headless(prompt)])} </dev/null\n")
    outer = lab.headless(
        "[[tool=sh inner.sh]] [[gate=%]] outer work", CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="of-claude"
    )
    held = lab.model.journal.wait("held", mark, gate=mark, deadline=60)
    inner = lab.enters(_inside(outer), mark)
    inner.is_now("running", since=held.at)
    outer.is_now("running", since=held.at)
    assert inner.session_id not in (None, outer.session_id)
    inner.opens()
    inner.is_gone(outcome="completed")
    outer.is_held()
    outer.opens()
    outer.is_gone(outcome="completed")


def long_prompt(lab: Lab) -> None:
    """More than one argument may hold."""
    text = "all work and no play " * 10_000
    actor = lab.headless(f"[[gate=%]] {text}", form=lambda _: lab.recipe.headless("")[:-1], piped=True)
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def pid_reused(lab: Lab) -> None:
    """Its file has an open turn for ever; its number is another Pi's."""
    first = lab.headless("[[gate=%]] count")
    first.is_held()
    first.unsettled()
    kill(first.process)
    first.is_gone(outcome="killed")
    first.unsettled()  # the other one may have it open, until it has a prompt of its own
    second = common.again_with_pid(lab, first.process.pid)
    second.is_held()
    first.is_now("stopped", outcome="killed")
    second.opens()
    second.is_gone(outcome="completed")


def upgraded(lab: Lab) -> None:
    """Its node is replaced: the kernel then calls the program deleted."""
    node = lab.root / "private" / "node"
    node.parent.mkdir()
    *_, real, script, _ = shlex.split((lab.pin.commands / "pi").read_text())
    shutil.copy(os.path.realpath(real), node)
    actor = lab.headless("[[gate=%]] count", script, program=str(node))
    actor.is_held()
    newer = node.with_suffix(".new")
    newer.write_text("#!/bin/sh\n")
    newer.replace(node)
    assert os.readlink(f"/proc/{actor.process.pid}/exe").endswith(" (deleted)")
    actor.is_now("running")
    actor.opens()
    actor.is_gone(outcome="completed")


def _inside(outer: Actor) -> ProcessIdentity:
    """The Pi below that one."""
    table = procfs.read_table()
    for process in table.values():
        above = process.parent
        while above > 1 and above in table and above != outer.process.pid:
            above = table[above].parent
        if above == outer.process.pid and process.comm == "pi":
            return process.identity
    raise AssertionError("no Pi in the Pi")
