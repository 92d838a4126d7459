"""Choose the tool for a scripted call, and the shape of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentctl.light_typing import Mapping
from agentctl.rehearsal.model.request import Tool
from agentctl.rehearsal.model.script import BadScript, Call, Shell

# Tools that run a command, best first.
SHELLS = (
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "exec",
)
# By default Codex waits 10 s for the end of a command; 30 s is the most that it accepts.
PATIENCE = {"yield_time_ms": 30_000}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call that is ready to send."""

    tool: Tool
    arguments: Mapping[str, Any]


def choose_tool(call: Shell | Call, offered: Mapping[str, Tool]) -> ToolUse:
    """Return the tool and its arguments for this call. Raises BadScript if there is no shell tool."""
    if isinstance(call, Call):
        # A tool that is not offered is called too: a script may test how the agent takes it.
        return ToolUse(offered.get(call.name, Tool(call.name)), call.arguments)
    for name in SHELLS:
        if name in offered:
            return ToolUse(offered[name], _shell_arguments(call.command, offered[name]))
    raise BadScript(f"no shell tool among those offered: {', '.join(sorted(offered))}")


def _shell_arguments(command: str, tool: Tool) -> dict[str, Any]:
    properties: Mapping[str, Any] = tool.schema.get("properties") or {}
    key = "cmd" if "cmd" in properties else "command"
    as_list = (properties.get(key) or {}).get("type") == "array"
    arguments: dict[str, Any] = {key: ["bash", "-lc", command] if as_list else command}
    if "description" in properties:
        arguments["description"] = f"Run {command[:40]}"
    return arguments | {name: value for name, value in PATIENCE.items() if name in properties}
