"""A scripted command becomes a call of the shell that this agent offers, in the shape it wants."""

from typing import Any

import pytest

from agentctl.rehearsal.model.request import Tool
from agentctl.rehearsal.model.script import BadScript, Call, Shell
from agentctl.rehearsal.model.tools import use


def offered(name: str, **properties: Any) -> dict[str, Tool]:
    return {"Read": Tool("Read"), name: Tool(name, {"properties": properties})}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("tools", "arguments"),
    [
        (offered("Bash", command=TEXT, description=TEXT), {"command": "ls", "description": "Run ls"}),
        (offered("bash", command=TEXT), {"command": "ls"}),
        (offered("exec_command", cmd=TEXT, yield_time_ms={}), {"cmd": "ls", "yield_time_ms": 30_000}),
        (offered("shell", command={"type": "array"}), {"command": ["bash", "-lc", "ls"]}),
        (offered("shell_command"), {"command": "ls"}),
    ],
)
def test_a_command_goes_to_the_shell_tool(tools: dict[str, Tool], arguments: dict[str, Any]) -> None:
    found = use(Shell("ls"), tools)
    assert found.tool.name != "Read"
    assert found.arguments == arguments


def test_without_a_shell_tool_the_script_is_bad() -> None:
    with pytest.raises(BadScript, match="Read, Write"):
        use(Shell("ls"), {"Write": Tool("Write"), "Read": Tool("Read")})


def test_any_tool_is_called_as_it_is_offered() -> None:
    task = Tool("spawn", namespace="agents")
    assert use(Call("spawn", {"a": 1}), {"spawn": task}).tool == task
    assert use(Call("nothing_like_it", {}), {"spawn": task}).tool == Tool("nothing_like_it")
