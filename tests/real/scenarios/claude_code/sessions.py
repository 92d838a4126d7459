"""Claude Code's sessions: resumed, forked, left for another one, and what goes on after a turn."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from tests.real.scenarios.claude_code.dialogs import command
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.real.actor import Actor
    from tests.real.lab import Lab

NOTICE = "automated background-task event"  # how Claude Code begins a turn about its own background work


STARTING = "while it starts, Claude Code has not written yet what it does"


def _make_session(lab: Lab) -> str:
    """The id of a session that has ended."""
    actor = lab.headless("hello")
    actor.is_gone(outcome="completed")
    actor.unsettled()  # from now on another process may have its session
    return actor.has_id()


def _resume(lab: Lab, session_id: str, *words: str, cwd: Path | None = None) -> Actor:
    """Headless, and declared from its first moment on: the session has not ended any more."""
    actor = lab.headless("[[gate=%]] go on", *words, cwd=cwd, session_id=session_id)
    actor.is_now("running", blind=STARTING)
    actor.is_held()
    return actor


def resume_headless(lab: Lab) -> None:
    """By its id, and as the last one of this directory."""
    session_id = _make_session(lab)
    actor = _resume(lab, session_id, "--resume", session_id)
    actor.opens()
    actor.is_gone(outcome="completed")
    actor.unsettled()
    actor = lab.headless("[[gate=%]] go on", "--continue")
    actor.is_held()
    assert actor.has_id() == session_id
    actor.opens()
    actor.is_gone(outcome="completed")


def resume_in_the_tui(lab: Lab) -> None:
    """By its id; as the last one of this directory; and from the list that it shows. The latter two
    know only sessions that began at a terminal."""
    actor = lab.tui()
    actor.says("hello")
    actor.has_answer()
    _leaves(actor)
    session_id = actor.has_id()
    for words in (["--resume", session_id], ["--continue"]):
        actor = lab.tui(*words, session_id=session_id)
        actor.is_now("idle", since=actor.sees("ok: "))
        actor.says("[[gate=%]] go on")
        actor.plays_out()
        _leaves(actor)
    actor = lab.tui("--resume", ready="Resume session")
    actor.is_now("waiting", since=actor.sees("to show all projects"), waiting_for="startup")
    actor.answers("to show all projects", "Enter")
    actor.session_id = session_id
    actor.is_now("idle", since=actor.sees("? for shortcuts"))


def _leaves(actor: Actor) -> None:
    actor.unsettled()
    command(actor, "/exit")
    actor.is_gone(outcome="completed")
    actor.unsettled()  # from now on another process may have its session


def fork(lab: Lab) -> None:
    """A copy with an id of its own; the origin stays as it was."""
    origin = lab.headless("hello")
    origin.is_gone(outcome="completed")
    actor = lab.headless("[[gate=%]] go on", "--resume", origin.has_id(), "--fork-session")
    actor.is_held()
    assert actor.has_id() != origin.session_id
    actor.is_now("running")
    origin.is_now("stopped", outcome="completed")
    actor.opens()
    actor.is_gone(outcome="completed")


def new_session_in_place(lab: Lab) -> None:
    """/clear begins another session, and so does /branch: each time the former one is over."""
    actor = lab.tui()
    actor.says("hello")
    actor.has_answer()
    mark = actor.mark
    actor.leaves()
    command(actor, "/clear")
    until(lambda: mark not in actor.terminal.screen(), "the screen is cleared")
    _goes_on(actor, time.time())
    actor.leaves()
    command(actor, "/branch")
    _goes_on(actor, actor.sees("Branched conversation"))


def _goes_on(actor: Actor, since: float) -> None:
    """With a session that is new since then."""
    actor.is_elsewhere(outcome="completed")
    actor.is_now("idle", since=since)
    actor.says("[[gate=%]] hello")
    actor.plays_out()


def sub_agent_after_the_main_turn(lab: Lab) -> None:
    """The main turn has its answer, the sub-agent works on: its end begins a turn by itself."""
    actor = lab.tui()
    arguments = {
        "description": "look",
        "prompt": "sub {{gate=sub}} look",
        "subagent_type": "general-purpose",
    }
    actor.says(f"[[call=Agent:{json.dumps(arguments)}]] delegate")
    actor.heard("answered")
    note = lab.model.journal.wait("held", gate="sub")
    actor.is_now("running", since=note.at)
    actor.unsettled()
    lab.model.open("sub")
    actor.is_now("idle", since=lab.model.journal.wait("answered", NOTICE).at)


def background_shell(lab: Lab) -> None:
    """Its prompt is free while the command runs on; when the command ends, a turn begins by itself."""
    actor, errand = lab.tui(), lab.errand()
    arguments = {"command": errand.command, "description": "wait", "run_in_background": True}
    actor.says(f"[[call=Bash:{json.dumps(arguments)}]] start")
    errand.has_begun()
    actor.has_answer()
    assert errand.runs
    actor.unsettled()
    errand.finish()
    actor.is_now("idle", since=lab.model.journal.wait("answered", NOTICE).at)


def resumed_from_another_directory(lab: Lab) -> None:
    """Its transcript stays the same file, while its directory is the other one."""
    session_id = _make_session(lab)
    other = lab.repository(lab.root / "other")
    actor = _resume(lab, session_id, "--resume", session_id, cwd=other)
    (row,) = lab.rows()
    assert row["cwd"] == str(other)
    actor.opens()
    actor.is_gone(outcome="completed")
