"""OpenCode speaks OpenAI chat completions to a provider of its settings."""

from __future__ import annotations

import json

from agentctl.light_typing import Mapping
from agentctl.rehearsal.recipe import KEY, Place, Recipe


def _furnish(place: Place) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",  # included in OpenCode: nothing is downloaded
        "options": {"baseURL": f"{place.model}/v1", "apiKey": KEY},
        "models": {"fake-1": {}},
    }
    settings = {
        "model": "fake/fake-1",
        "small_model": "fake/fake-1",
        "share": "disabled",
        "provider": {"fake": provider},
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "PWD": place.work,  # it uses this instead of its working directory
    }


def _headless(prompt: str) -> list[str]:
    return ["run", "--format", "json", prompt]


RECIPE = Recipe(
    adapter="opencode",
    furnish=_furnish,
    headless=_headless,
    interactive=(),
    ready=r"Ask anything",
    leave=("/exit",),
)
