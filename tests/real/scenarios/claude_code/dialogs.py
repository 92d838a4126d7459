"""Claude Code at its terminal: what it asks a person, and what it shows while the model fails it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.real.errand import Errand
from tests.real.scenarios import common

if TYPE_CHECKING:
    from tests.real.actor import Actor
    from tests.real.lab import Lab

MAY_I = "Do you want to proceed?"
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": name, "description": "a colour"} for name in ("Red", "Blue")],
}


def _asks(lab: Lab) -> tuple[Actor, Errand]:
    actor, errand = lab.tui(), lab.errand()
    actor.says(f"[[tool={errand.writing_command}]] [[gate=%]] work")
    actor.is_now("waiting", since=actor.sees(MAY_I), waiting_for="permission")
    return actor, errand


def permission_asked(lab: Lab) -> None:
    _asks(lab)


def permission_granted(lab: Lab) -> None:
    actor, errand = _asks(lab)
    actor.answers(MAY_I, "Enter")  # the first choice is Yes
    common.command_allowed(actor, errand)


def permission_denied(lab: Lab) -> None:
    """Claude Code does not report it to the model: it waits for the person to say what to do instead."""
    actor, _ = _asks(lab)
    actor.answers(MAY_I, "Escape")
    actor.is_now("idle", since=actor.sees("Interrupted"))


def question_asked(lab: Lab) -> None:
    actor = lab.tui()
    actor.says(f"[[call=AskUserQuestion:{json.dumps({'questions': [QUESTION]})}]] [[gate=%]] ask")
    actor.is_now("waiting", since=actor.sees("Enter to select"), waiting_for="question")
    actor.answers("Enter to select", "Enter")
    actor.plays_out()


def idle(lab: Lab) -> None:
    """After a turn, after another one, and while a menu of its own is open, which is no question."""
    actor = lab.tui()
    for _ in range(2):
        actor.says("[[gate=%]] hello")
        actor.plays_out()
    actor.unsettled()
    command(actor, "/status")
    actor.is_now("idle", since=actor.sees("Esc to cancel"))


def command(actor: Actor, name: str) -> None:
    """A slash command: Enter counts once the menu of commands offers it."""
    actor.terminal.type(name)
    actor.terminal.shows(name)
    actor.terminal.press("Enter")
