"""OpenCode's sessions: resumed, forked, left for another one, several in one directory."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tests.real.actor import make_prompt
from tests.real.scenarios import common

if TYPE_CHECKING:
    from tests.real.actor import Actor
    from tests.real.lab import Form, Lab

OPEN = "ctrl+p commands"  # shown below a session and below an empty prompt


def resume_headless(lab: Lab) -> None:
    """By its id, and as the last one."""
    session_id = _make_session(lab)
    for words in (["--session", session_id], ["--continue"]):
        actor = lab.headless("[[gate=%]] go on", form=_run(*words))
        actor.is_held()
        assert actor.session_id == session_id
        actor.opens()
        actor.is_gone(outcome="completed")


def resume_in_the_tui(lab: Lab) -> None:
    """Once after a turn that was over, once after one that a kill left open."""
    session_id = _make_session(lab)
    first = _tui_of(lab, session_id)
    first.is_now("idle")
    first.says("[[gate=%]] go on")
    first.is_held()
    first.signal(signal.SIGKILL)
    first.is_gone(outcome="killed")
    again = _tui_of(lab, session_id)
    again.is_now("idle")
    again.says("[[gate=%]] go on")
    again.is_held()
    again.session_id = None
    assert again.who().session_id == session_id
    again.opens()
    again.has_answer()


def resumed_elsewhere(lab: Lab) -> None:
    """It does the work, prints nothing and never ends: a process that is idle."""
    session_id = _make_session(lab)
    elsewhere = lab.repository(lab.root / "other")
    actor = lab.headless("[[gate=%]] go on", cwd=elsewhere, form=_run("--session", session_id))
    actor.session_id = session_id
    actor.plays_out()
    actor.signal(signal.SIGTERM)
    actor.is_gone(outcome="completed")


def fork(lab: Lab) -> None:
    """A copy with an id of its own; the origin, which its arguments name, is not running."""
    origin = lab.headless("hello")
    origin.is_gone(outcome="completed")
    actor = lab.headless("[[gate=%]] go on", form=_run("--session", str(origin.session_id), "--fork"))
    actor.is_held()
    assert actor.session_id not in (None, origin.session_id)
    origin.is_now("stopped", since=origin.died_at, outcome="completed")
    actor.opens()
    actor.is_gone(outcome="completed")


def new_in_place(lab: Lab) -> None:
    """A session that it has left is over, unless it was left at work: then it works on. The new session
    shows with its first prompt, when it gets an id."""
    first = lab.tui()
    first.says("hello")
    first.has_answer()
    second = _new(first)
    first.leaves()
    second.says("[[gate=%]] count")
    second.is_held()
    first.is_elsewhere(outcome="completed")
    third = _new(second)
    third.says("[[gate=%]] count")
    third.is_held()
    second.is_now("running")
    third.opens()
    third.has_answer()
    second.is_now("running")
    gate = second.mark
    second.leaves()
    lab.model.open(gate)
    lab.model.journal.wait("answered", gate)
    second.is_elsewhere(outcome="completed")
    third.is_now("idle")


def _new(actor: Actor) -> Actor:
    """The same process and terminal, at another session."""
    actor.presses("C-x", "n")
    actor.terminal.shows(actor.lab.recipe.ready)
    new = actor.lab.enters(actor.process, make_prompt("")[0])
    new.body = actor.body
    return new


def sub_agent(lab: Lab) -> None:
    """In the background, which it has to be allowed: the main turn is over, the sub-agent works on in
    a session of its own. Its end begins a turn by itself."""
    actor = lab.tui(OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS="1")
    arguments = {
        "description": "look",
        "prompt": "{{gate=sub}} look",
        "subagent_type": "general",
        "background": True,
    }
    actor.says(f"[[call=task:{json.dumps(arguments)}]] delegate")
    note = lab.model.journal.wait("held", gate="sub", deadline=60.0)
    actor.has_answer()
    helper = lab.enters(actor.process, actor.mark, child_of(lab, actor))
    helper.is_now("running", since=note.at)
    actor.is_now("idle")
    for each in (actor, helper):
        each.unsettled()
    last = lab.model.journal.last
    lab.model.open("sub")
    answer = lab.model.journal.wait("answered", after=last, deadline=60.0)
    helper.is_now("idle", since=answer.at)
    actor.is_now("idle", since=lab.model.journal.wait("answered", after=answer.seq, deadline=60.0).at)


def two_in_one_directory(lab: Lab) -> None:
    """Two terminals: nothing but the log tells them apart."""
    first, second = lab.tui(), lab.tui()
    first.is_now("idle")
    second.is_now("idle")
    second.says("[[gate=%]] count")
    second.is_held()
    first.is_now("idle")
    first.says("hello")
    first.has_answer()
    second.is_now("running")
    second.signal(signal.SIGKILL)
    second.is_gone(outcome="killed")
    first.is_now("idle")


def parallel_starts(lab: Lab) -> None:
    """Not its very first starts: each of those makes the database, and all but one may fail at it."""
    _make_session(lab)
    common.parallel_starts(lab)


def child_of(lab: Lab, actor: Actor) -> str:
    """The session of its sub-agent, by OpenCode's own record."""
    database = lab.home / ".local/share/opencode/opencode.db"
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        query = "SELECT id FROM session WHERE parent_id = ?"
        ((session_id,),) = connection.execute(query, (actor.who().session_id,))
        return str(session_id)


def _make_session(lab: Lab) -> str:
    actor = lab.headless("hello")
    actor.is_gone(outcome="completed")
    assert actor.session_id is not None
    return actor.session_id


def _run(*words: str) -> Form:
    return lambda prompt: ["run", *words, "--format", "json", prompt]


def _tui_of(lab: Lab, session_id: str) -> Actor:
    actor = lab.tui("--session", session_id, ready=OPEN)
    actor.session_id = session_id
    return actor
