"""OpenCode at its terminal: what it asks a person, and what it shows while the model fails it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.real.scenarios import common
from tests.real.scenarios.opencode.sessions import child_of

if TYPE_CHECKING:
    from tests.real.actor import Actor
    from tests.real.errand import Errand
    from tests.real.lab import Lab

# By default it asks for little: for files outside its directory, and when it seems to go in circles.
ASKING = json.dumps({"bash": "ask", "edit": "ask", "webfetch": "ask"})
PARTLY = json.dumps({"bash": {"*": "allow", "touch *": "ask"}})
MAY_I = "Permission required"
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": name, "description": "a colour"} for name in ("Red", "Blue")],
}
UNTOLD = "a page that is fetched looks like one that waits to be allowed: only the screen tells"


def tools_running(lab: Lab) -> None:
    """A command; and a sub-agent, which has a session of its own."""
    common.tool_running(lab)
    arguments = {"description": "look", "prompt": "{{gate=sub}} look", "subagent_type": "general"}
    actor = lab.headless(f"[[call=task:{json.dumps(arguments)}]] go on")
    note = lab.model.journal.wait("held", gate="sub", deadline=60.0)
    helper = lab.enters(actor.process, actor.mark, child_of(lab, actor))
    helper.is_now("running", since=note.at)
    actor.is_now("running", since=note.at)
    for each in (actor, helper):
        each.unsettled()
    lab.model.open("sub")
    actor.is_gone(outcome="completed")
    helper.is_now("stopped", since=actor.died_at, outcome="completed")


def _asks(lab: Lab) -> tuple[Actor, Errand]:
    actor, errand = lab.tui(OPENCODE_PERMISSION=ASKING), lab.errand()
    actor.says(f"[[tool={errand.writing_command}]] [[gate=%]] work")
    actor.is_now("waiting", since=actor.sees(MAY_I), waiting_for="permission")
    return actor, errand


def permission_asked(lab: Lab) -> None:
    """For a command, for a file, for a place outside, and for a page; for one of two calls, while the
    other runs."""
    actor, _ = _asks(lab)
    _refuses(actor)
    outside, inside = {"filePath": "/etc/hostname"}, {"filePath": f"{lab.work}/new", "content": "x"}
    for call in (f"read:{json.dumps(outside)}", f"write:{json.dumps(inside)}"):
        actor.says(f"[[call={call}]] work")
        actor.is_now("waiting", since=actor.sees(MAY_I), waiting_for="permission")
        _refuses(actor)
    page = {"url": lab.model.url, "format": "text"}
    actor.says(f"[[call=webfetch:{json.dumps(page)}]] work")
    actor.is_now("waiting", since=actor.sees(MAY_I), waiting_for="permission", blind=UNTOLD)
    common.wait_for_unknown_activity(actor)
    _refuses(actor)
    errand, other = lab.errand(), lab.tui(OPENCODE_PERMISSION=PARTLY)
    other.says(f"[[tools={errand.command}|touch new]] work")
    errand.has_begun()
    other.is_now("waiting", since=other.sees(MAY_I), waiting_for="permission")


def permission_granted(lab: Lab) -> None:
    actor, errand = _asks(lab)
    actor.answers(MAY_I, "Enter")  # the first choice is to allow it once
    common.command_allowed(actor, errand)


def permission_denied(lab: Lab) -> None:
    """OpenCode does not report it to the model: its turn is over, and the next prompt begins another."""
    actor, _ = _asks(lab)
    _refuses(actor)
    actor.says("[[gate=%]] something else")
    actor.plays_out()


def _refuses(actor: Actor) -> None:
    actor.answers(MAY_I, "Escape")
    actor.is_now("idle")


def question_asked(lab: Lab) -> None:
    """Answered, and dismissed."""
    actor = lab.tui()
    script = f"[[call=question:{json.dumps({'questions': [QUESTION]})}]] [[gate=%]] ask"
    actor.says(script)
    actor.is_now("waiting", since=actor.sees("esc dismiss"), waiting_for="question")
    actor.answers("esc dismiss", "Enter")
    actor.plays_out()
    actor.says(script)
    actor.is_now("waiting", since=actor.sees("esc dismiss"), waiting_for="question")
    actor.answers("esc dismiss", "Escape")
    actor.is_now("idle")


def interrupted(lab: Lab) -> None:
    """While it streams; and while it waits to try again, of which it writes nothing down."""
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held()
    _interrupts(actor)
    actor.is_now("idle", since=actor.heard("left").at)
    actor.says("[[error=500]] hello")
    actor.is_now("running", since=actor.sees("retrying in"))
    _interrupts(actor)
    actor.is_now("idle")


def _interrupts(actor: Actor) -> None:
    """Esc twice: the first one makes it ask for the second."""
    actor.presses("Escape")
    actor.terminal.shows("esc again to interrupt")
    actor.answers("again to interrupt", "Escape")
