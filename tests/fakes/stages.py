"""Every stage there is: the laws are tested on each agent alike."""

import importlib
import importlib.util

from agentctl.testing import Stage
from tests.fakes.demo import DemoStage

OTHERS = {
    "claude": "ClaudeStage",
    "codex": "CodexStage",
    "opencode": "OpenCodeStage",
    "pi": "PiStage",
}


def stages() -> list[type[Stage]]:
    """Those whose fake exists. One that exists and cannot be imported is an error, not an absence."""
    result: list[type[Stage]] = [DemoStage]
    for module, name in OTHERS.items():
        if importlib.util.find_spec(f"tests.fakes.{module}") is not None:
            stage: type[Stage] = getattr(importlib.import_module(f"tests.fakes.{module}"), name)
            result.append(stage)
    return result


def find_stage(adapter: str) -> type[Stage]:
    return next(stage for stage in stages() if stage.adapter == adapter)
