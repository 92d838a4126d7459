"""A scripted command becomes a call of the shell that this agent offers, in the shape it wants."""

from typing import Any

import pytest

from agentctl.rehearsal.model.request import Tool
from agentctl.rehearsal.model.script import BadScript, Call, Shell
from agentctl.rehearsal.model.tools import choose_tool


def offer_tool(name: str, **properties: Any) -> dict[str, Tool]:
    return {"Read": Tool("Read"), name: Tool(name, {"properties": properties})}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("tools", "arguments"),
    [
        (offer_tool("Bash", command=TEXT, description=TEXT), {"command": "ls", "description": "Run ls"}),
        (offer_tool("bash", command=TEXT), {"command": "ls"}),
        (offer_tool("exec_command", cmd=TEXT, yield_time_ms={}), {"cmd": "ls", "yield_time_ms": 30_000}),
        (offer_tool("shell", command={"type": "array"}), {"command": ["bash", "-lc", "ls"]}),
        (offer_tool("shell_command"), {"command": "ls"}),
    ],
)
def test_a_command_goes_to_the_shell_tool(tools: dict[str, Tool], arguments: dict[str, Any]) -> None:
    choice = choose_tool(Shell("ls"), tools)
    assert choice.tool.name != "Read"
    assert choice.arguments == arguments


def test_without_a_shell_tool_the_script_is_bad() -> None:
    with pytest.raises(BadScript, match="Read, Write"):
        choose_tool(Shell("ls"), {"Write": Tool("Write"), "Read": Tool("Read")})


def test_any_tool_is_called_as_it_is_offered() -> None:
    task = Tool("spawn", namespace="agents")
    assert choose_tool(Call("spawn", {"a": 1}), {"spawn": task}).tool == task
    assert choose_tool(Call("nothing_like_it", {}), {"spawn": task}).tool == Tool("nothing_like_it")
