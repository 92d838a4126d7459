"""How a real agent is made to talk to our model from a private home: what to write, which words to say.

One recipe per agent, in `recipes/`, found by the adapter's name. No recipe holds a credential: the key
is the word "none", and the room has no way out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agentctl.errors import Unsupported

KEY = "none"
COMMON = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/bash"}


class Place(NamedTuple):
    """Where an agent is rehearsed."""

    home: str  # private and empty
    work: str  # the directory it works in
    model: str  # http://127.0.0.1:PORT
    trusted: tuple[str, ...] = ()  # further directories that it may work in without asking


class Recipe(NamedTuple):
    """Words come without the command itself."""

    adapter: str
    furnish: Callable[[Place], Mapping[str, str]]  # writes its settings, returns its environment
    headless: Callable[[str], list[str]]  # one turn on this prompt, then it ends; stdin is empty
    interactive: tuple[str, ...]  # waits for a person at its prompt
    ready: str  # a pattern that its screen shows when it can take a prompt
    enter: str = "\r"  # the key that sends what was typed
    leave: tuple[str, ...] = ()  # what a person types to end it, each followed by `enter`


def recipe_for(adapter: str) -> Recipe:
    """Raises Unsupported for an agent that nobody wrote one for."""
    module = f"agentctl.rehearsal.recipes.{adapter.replace('-', '_')}"
    try:
        found: Recipe = __import__(module, fromlist=["RECIPE"]).RECIPE
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise Unsupported(adapter, "nobody has written down how to rehearse it") from None
    return found


def environment(recipe: Recipe, place: Place, path: str) -> dict[str, str]:
    """All that the agent is told; nothing of ours leaks into it."""
    os.makedirs(os.path.join(place.home, "tmp"), exist_ok=True)
    private = {"HOME": place.home, "TMPDIR": os.path.join(place.home, "tmp"), "PATH": path}
    return {**COMMON, **private, **recipe.furnish(place)}


def write(place: Place, name: str, text: str) -> str:
    """A file in the private home."""
    path = os.path.join(place.home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
