"""Which tools are measured: ours, and every pinned one that is there."""

from __future__ import annotations

from collections.abc import Callable

from tests.real.accuracy.fetch import Pin, pins
from tests.real.accuracy.tools import Tool
from tests.real.accuracy.tools.agent_ps import AgentPs
from tests.real.accuracy.tools.agents_tree import AgentsTree
from tests.real.accuracy.tools.claude_busy_monitor import ClaudeBusyMonitor
from tests.real.accuracy.tools.ours import Agentctl

READERS: dict[str, Callable[[Pin], Tool]] = {
    "claude-busy-monitor": ClaudeBusyMonitor,
    "agents-tree": AgentsTree,
    "agent-ps": AgentPs,
}


def present() -> list[Tool]:
    """Ours first."""
    return [Agentctl(), *(READERS[pin.name](pin) for pin in pins().values() if pin.installed)]


def absent() -> dict[str, str]:
    """By name, for the report: why it is not measured."""
    return {
        pin.name: f"{pin.package} {pin.version} is not installed: python -m tests.real.accuracy.fetch"
        for pin in pins().values()
        if not pin.installed
    }
