"""Codex's threads: resumed, forked, begun in place, and what outlives a turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.real.actor import make_prompt
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.actor import Actor
    from tests.real.lab import Form, Lab


def resume_headless(lab: Lab) -> None:
    _resume(lab, _make_thread(lab), lab.work)


def resumed_elsewhere(lab: Lab) -> None:
    """From now on its directory is the other one."""
    elsewhere = lab.repository(lab.root / "other")
    session_id = _resume(lab, _make_thread(lab), elsewhere)
    row = next(row for row in lab.rows() if row["id"] == session_id)
    assert row["cwd"] == str(elsewhere)


def resume_in_the_tui(lab: Lab) -> None:
    """Once after a turn that was over, once after one that a kill left open."""
    first = _tui_of(lab, _make_thread(lab))
    first.is_now("idle")
    first.says("[[gate=%]] go on")
    first.is_held()
    first.terminal.close()
    first.is_gone(outcome="killed")
    again = _tui_of(lab, first)
    again.is_now("idle")
    again.says("[[gate=%]] go on")
    again.plays_out()


def fork(lab: Lab) -> None:
    """Its arguments name the parent, which is not running."""
    parent = lab.headless("hello")
    parent.is_gone(outcome="completed")
    session_id = parent.has_id()
    child = lab.tui("fork", session_id)
    child.is_now("idle")
    parent.is_now("stopped", since=parent.died_at, outcome="completed")
    child.says("[[gate=%]] go on")
    child.is_held()
    assert child.has_id() != session_id
    parent.is_now("stopped", since=parent.died_at, outcome="completed")
    child.opens()
    child.has_answer()


def new_in_place(lab: Lab) -> None:
    """The old thread stays loaded, idle, for another minute; the process has both."""
    actor = lab.tui()
    actor.says("hello")
    actor.has_answer()
    actor.terminal.type("/new")
    actor.terminal.shows("start a new chat")
    actor.presses("Enter")
    actor.terminal.shows("Where should the new conversation run?")
    actor.terminal.press("Enter")
    until(lambda: actor.mark not in actor.terminal.screen(), "the new thread is there")
    actor.terminal.shows(lab.recipe.ready)
    actor.is_now("idle")
    new = lab.enters(actor.process, make_prompt("")[0])
    new.body = actor.body
    new.says("[[gate=%]] hello again")
    assert new.has_id() != actor.has_id()
    new.is_held()
    actor.is_now("idle")
    new.opens()
    new.has_answer()


def sub_agent(lab: Lab) -> None:
    """Its own thread in the same process. (An exec would end it with its own turn.)"""
    actor = lab.tui()
    mark, prompt = make_prompt("{{gate=%}} help")
    actor.says(f"[[call=spawn_agent:{json.dumps({'message': prompt})}]] go on")
    actor.has_answer()
    lab.model.journal.wait("held", mark, gate=mark)
    helper = lab.enters(actor.process, mark, _thread_of_helper(lab, actor))
    helper.is_held()
    actor.is_now("idle")
    last = lab.model.journal.last  # the main turn's words hold the helper's, and its answer is sent
    helper.opens()
    helper.is_now("idle", since=helper.heard("answered", after=last).at)
    actor.is_now("idle")


def background_shell(lab: Lab) -> None:
    """A command that outlives its turn: Codex waits for its next prompt."""
    errand = lab.errand()
    actor = lab.tui()
    arguments = {"cmd": errand.command, "yield_time_ms": 250}
    actor.says(f"[[call=exec_command:{json.dumps(arguments)}]] go on")
    actor.has_answer()
    errand.has_begun()
    actor.is_now("idle")
    errand.finish()
    actor.is_now("idle")


def resuming(lab: Lab, session_id: str) -> Form:
    def words(prompt: str) -> list[str]:
        *options, text = lab.recipe.headless(prompt)
        return [*options, "resume", session_id, text]

    return words


def _make_thread(lab: Lab) -> Actor:
    actor = lab.headless("hello")
    actor.is_gone(outcome="completed")
    return actor


def _resume(lab: Lab, before: Actor, cwd: Path) -> str:
    session_id = before.has_id()
    before.unsettled()  # from now on another process has its thread
    form = resuming(lab, session_id)
    actor = lab.headless("[[gate=%]] go on", cwd=cwd, form=form, session_id=session_id)
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")
    actor.session_id = None
    assert actor.has_id() == session_id
    return session_id


def _tui_of(lab: Lab, before: Actor) -> Actor:
    before.unsettled()
    return lab.tui("resume", before.has_id(), session_id=before.has_id())


def _thread_of_helper(lab: Lab, parent: Actor) -> str:
    """The thread whose first record names the parent."""
    mine = f'"parent_thread_id":"{parent.who().session_id}"'
    threads = [
        path.stem[-36:]
        for path in lab.home.glob(".codex/sessions/*/*/*/rollout-*.jsonl")
        if mine in path.read_text().partition("\n")[0]
    ]
    (thread,) = threads
    return thread
