"""Claude Code: speaks Anthropic Messages. Three screens come before its prompt, if it is not told."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentctl.rehearsal.recipe import KEY, Place, Recipe, write


def _furnish(place: Place) -> Mapping[str, str]:
    settled = {
        "hasCompletedOnboarding": True,  # else it asks the network, and ends without one
        "projects": {path: {"hasTrustDialogAccepted": True} for path in (place.work, *place.trusted)},
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
    }
    write(place, ".claude.json", json.dumps(settled))
    return {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": KEY,
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # root may then use every permission mode
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
