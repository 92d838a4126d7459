"""Moved to `agentctl.fuses.expire`."""

from agentctl.fuses.expire import main

__all__ = ["main"]
