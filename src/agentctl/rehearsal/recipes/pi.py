"""Pi speaks OpenAI chat completions to a provider of its `models.json`."""

from __future__ import annotations

import json

from agentctl.light_typing import Mapping
from agentctl.rehearsal.recipe import KEY, Place, Recipe, write_file

_MODEL = {
    "id": "fake-1",
    "name": "Fake",
    "reasoning": False,
    "input": ["text"],
    "contextWindow": 1_000_000,
    "maxTokens": 8000,
    "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
}


def _furnish(place: Place) -> Mapping[str, str]:
    provider = {
        "baseUrl": f"{place.model}/v1",
        "api": "openai-completions",
        "apiKey": KEY,
        "models": [_MODEL],
    }
    write_file(place, ".pi/agent/models.json", json.dumps({"providers": {"fake": provider}}))
    write_file(
        place,
        ".pi/agent/settings.json",
        json.dumps({"defaultProvider": "fake", "defaultModel": "fake-1"}),
    )
    return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}


def _headless(prompt: str) -> list[str]:
    return ["-p", "--model", "fake/fake-1", prompt]


RECIPE = Recipe(
    adapter="pi",
    furnish=_furnish,
    headless=_headless,
    interactive=("--model", "fake/fake-1"),
    ready=r"fake-1",
    leave=("/quit",),
)
