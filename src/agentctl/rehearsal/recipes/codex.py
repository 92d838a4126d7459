"""Codex speaks OpenAI Responses. Its settings must name every provider, its own too."""

from __future__ import annotations

from agentctl.light_typing import Mapping
from agentctl.rehearsal.recipe import KEY, Place, Recipe, write_file

# Without `disable_paste_burst`, Codex takes fast typing for pasted text, and the Enter after it for a
# line break.
_SETTINGS = """\
model = "gpt-lab"
model_provider = "lab"
check_for_update_on_startup = false
disable_paste_burst = true
[analytics]
enabled = false
[features]
plugins = false
unbounded_connection_retries = false
[model_providers.lab]
name = "Lab"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "LAB_KEY"
request_max_retries = 2
stream_max_retries = 2
"""


def _furnish(place: Place) -> Mapping[str, str]:
    trust = "".join(
        f'[projects."{path}"]\ntrust_level = "trusted"\n' for path in (place.work, *place.trusted)
    )
    write_file(place, ".codex/config.toml", _SETTINGS.format(model=place.model) + trust)
    return {"LAB_KEY": KEY}


def _headless(prompt: str) -> list[str]:
    return ["exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", prompt]


RECIPE = Recipe(
    adapter="codex",
    furnish=_furnish,
    headless=_headless,
    interactive=("--no-daemon",),
    ready="gpt-lab",  # the composer appears half a second earlier, but loses what is typed before this
    leave=("/quit",),
)
