"""Codex with a person at its terminal: what it asks, and what becomes of a turn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.real.scenarios import common

if TYPE_CHECKING:
    from tests.real.actor import Actor
    from tests.real.lab import Lab

APPROVAL = "Would you like to"
CHOICES = [{"label": "A", "description": "the first"}, {"label": "B", "description": "the other"}]
QUESTION = {"id": "which", "header": "Which", "question": "Which one?", "options": CHOICES}
NOT_TOLD = "only commands that leave the sandbox say so in the rollout; what else it asks is not written"


def outside_the_sandbox(command: str) -> str:
    """A call for which Codex asks a person."""
    wanted = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?"}
    patient = {"yield_time_ms": 30_000}  # else Codex goes on without the command's end after 10 s
    return f"[[call=exec_command:{json.dumps(wanted | patient)}]]"


def permission_asked(lab: Lab) -> None:
    """To leave the sandbox; for a dangerous command and for a patch, of which nothing is written."""
    actor = lab.tui("-s", "read-only")
    _asks(actor, outside_the_sandbox("true"))
    _refuses(actor)
    patch = "*** Begin Patch\n*** Add File: new\n+new\n*** End Patch"
    for command in ("rm -rf nothing", f"apply_patch <<'END'\n{patch}\nEND\n"):
        actor.says(f"[[call=exec_command:{json.dumps({'cmd': command})}]] go on")
        actor.terminal.shows(APPROVAL)
        actor.is_now("waiting", waiting_for="permission", blind=NOT_TOLD)
        _refuses(actor)


def permission_granted(lab: Lab) -> None:
    """Its command runs, then the model has the word again."""
    errand = lab.errand()
    actor = lab.tui()
    _asks(actor, f"{outside_the_sandbox(errand.command)} [[gate=%]]")
    actor.presses("y")
    common.command_allowed(actor, errand)


def permission_denied(lab: Lab) -> None:
    """Codex takes a no as an interrupt: its turn is over."""
    actor = lab.tui()
    _asks(actor, outside_the_sandbox("true"))
    _refuses(actor)


def question_asked(lab: Lab) -> None:
    """It has the tool for it in Plan mode only."""
    actor = lab.tui()
    actor.terminal.type("/plan")
    actor.terminal.shows("switch to Plan mode")
    actor.presses("Enter")
    actor.terminal.shows("for Plan mode")
    actor.is_now("idle")
    actor.says(f"[[call=request_user_input:{json.dumps({'questions': [QUESTION]})}]] [[gate=%]] go on")
    actor.terminal.shows("enter to submit answer")
    actor.is_now("waiting", waiting_for="question")
    actor.presses("Enter")
    actor.plays_out()


def _asks(actor: Actor, script: str) -> None:
    actor.says(f"{script} go on")
    actor.terminal.shows(APPROVAL)
    actor.is_now("waiting", waiting_for="permission")


def _refuses(actor: Actor) -> None:
    actor.presses("Escape")
    actor.terminal.shows("Ask Codex")
    actor.is_now("idle")
