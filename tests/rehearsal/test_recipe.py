"""A recipe is found by its adapter's name and hands over nothing but what it says."""

import json
from pathlib import Path

import pytest

from agentctl.adapters import registry
from agentctl.errors import Unsupported
from agentctl.rehearsal import recipe
from agentctl.rehearsal.recipe import Place

WITHOUT = {"demo"}  # acts by itself: it has no model


@pytest.mark.parametrize("adapter", [agent.name for agent in registry.find_adapters()])
def test_every_agent_with_a_model_has_one(adapter: str) -> None:
    if adapter in WITHOUT:
        with pytest.raises(Unsupported, match="there is no recipe"):
            recipe.recipe_for(adapter)
    else:
        assert recipe.recipe_for(adapter).adapter == adapter


@pytest.mark.parametrize("adapter", ["claude-code", "codex", "opencode", "pi"])
def test_it_knows_the_model_and_stays_in_its_home(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "of the person")
    place = Place(str(tmp_path / "home"), str(tmp_path / "work"), "http://127.0.0.1:9", ("/other",))
    environ = recipe.make_environment(recipe.recipe_for(adapter), place, "/usr/bin")
    assert environ["HOME"] == place.home
    assert "ANTHROPIC_AUTH_TOKEN" not in environ
    files = [path.read_text() for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert place.model in json.dumps(environ) + "".join(files)


@pytest.mark.parametrize("adapter", ["claude-code", "codex", "opencode", "pi"])
def test_the_prompt_is_among_the_words_of_a_headless_turn(adapter: str) -> None:
    assert "do it" in recipe.recipe_for(adapter).headless("do it")
