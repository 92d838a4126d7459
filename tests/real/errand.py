"""A command for an agent's shell tool, whose beginning and end the driver knows."""

from __future__ import annotations

import time

from agentctl.rehearsal import tool_command

PATIENCE = 60.0  # seconds: its agent may be slow to start


class Errand(tool_command.ToolCommand):
    def has_begun(self) -> float:
        """Waits until it runs; since when we know."""
        assert self.wait_for_start(PATIENCE), f"{self.command} does not run"
        return time.time()
