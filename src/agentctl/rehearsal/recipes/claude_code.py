"""Claude Code speaks Anthropic Messages. Settings skip the three screens before its prompt."""

from __future__ import annotations

import json

from agentctl.light_typing import Mapping
from agentctl.rehearsal.recipe import KEY, Place, Recipe, write_file


def _furnish(place: Place) -> Mapping[str, str]:
    state = {
        "hasCompletedOnboarding": True,  # otherwise it asks the network, and ends without one
        "projects": {path: {"hasTrustDialogAccepted": True} for path in (place.work, *place.trusted)},
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
    }
    write_file(place, ".claude.json", json.dumps(state))
    return {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # lets root use every permission mode
    }


def _headless(prompt: str) -> list[str]:
    return ["-p", prompt, "--permission-mode", "bypassPermissions"]


RECIPE = Recipe(
    adapter="claude-code",
    furnish=_furnish,
    headless=_headless,
    interactive=("--permission-mode", "manual"),
    ready="\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}",
    leave=("/exit",),
)
