"""Moved to `agentctl.launch.finish`."""

from agentctl.launch.finish import main

__all__ = ["main"]
