"""Codex with a person at its terminal: what it asks, and what becomes of a turn."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tests.real.scenarios import common

if TYPE_CHECKING:
    from tests.real.actor import Actor
    from tests.real.lab import Lab

APPROVAL = "Would you like to"
CHOICES = [{"label": "A", "description": "the first"}, {"label": "B", "description": "the other"}]
QUESTION = {"id": "which", "header": "Which", "question": "Which one?", "options": CHOICES}
# An MCP server with one tool, about which Codex asks before it runs it.
SERVER = """
import json, sys
TOOL = {"name": "paint", "description": "paints a shed", "inputSchema": {"type": "object"}}
ANSWERS = {
    "initialize": {"capabilities": {"tools": {}}, "serverInfo": {"name": "lab", "version": "1"}},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "painted"}]},
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        answer = dict(ANSWERS.get(request["method"], {}))
        if request["method"] == "initialize":
            answer["protocolVersion"] = request["params"]["protocolVersion"]
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}), flush=True)
"""
NOT_TOLD = "only commands that leave the sandbox say so in the rollout; what else it asks is not written"


def outside_the_sandbox(command: str) -> str:
    """A call that makes Codex ask a person."""
    arguments = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?"}
    patient = {"yield_time_ms": 30_000}  # else Codex goes on without the command's end after 10 s
    return f"[[call=exec_command:{json.dumps(arguments | patient)}]]"


def permission_asked(lab: Lab) -> None:
    """To leave the sandbox; for a dangerous command, for a patch and for a tool of an MCP server: of
    these nothing is written."""
    server = lab.root / "server.py"
    server.write_text(SERVER)
    with (lab.home / ".codex" / "config.toml").open("a") as settings:
        settings.write(f'[mcp_servers.lab]\ncommand = "{sys.executable}"\nargs = ["{server}"]\n')
    actor = lab.tui("-s", "read-only")
    _asks(actor, outside_the_sandbox("true"))
    _refuses(actor)
    patch = "*** Begin Patch\n*** Add File: new\n+new\n*** End Patch"
    for command in ("rm -rf nothing", f"apply_patch <<'END'\n{patch}\nEND\n"):
        actor.says(f"[[call=exec_command:{json.dumps({'cmd': command})}]] go on")
        actor.terminal.shows(APPROVAL)
        actor.is_now("waiting", waiting_for="permission", blind=NOT_TOLD)
        common.wait_for_unknown_activity(actor)
        _refuses(actor)
    actor.says("[[call=paint:{}]] go on")
    actor.terminal.shows("Allow the lab MCP server")
    actor.is_now("waiting", waiting_for="permission", blind=NOT_TOLD)
    common.wait_for_unknown_activity(actor)


def permission_granted(lab: Lab) -> None:
    """Its command runs, then the model goes on."""
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
