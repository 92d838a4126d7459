"""How to run a real agent against our model in a private home: its settings, environment and arguments.

One recipe per agent, in `recipes/`, found by the adapter's name. No recipe holds a credential: the key
is the word "none", and the sandbox has no network.
"""

from __future__ import annotations

import os

from agentctl.errors import Unsupported
from agentctl.light_typing import Callable, Mapping, NamedTuple

KEY = "none"
COMMON = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "SHELL": "/bin/bash"}


class Place(NamedTuple):
    """The directories and the model of one rehearsal."""

    home: str  # private and empty
    work: str  # the directory it works in
    model: str  # http://127.0.0.1:PORT
    trusted: tuple[str, ...] = ()  # more directories in which the agent may work without asking


class Recipe(NamedTuple):
    """How to run one agent. Arguments come without the program itself."""

    adapter: str
    furnish: Callable[[Place], Mapping[str, str]]  # writes its settings and returns its environment
    headless: Callable[[str], list[str]]  # arguments for one turn on this prompt; stdin is empty
    interactive: tuple[str, ...]  # arguments to wait for a user at its prompt
    ready: str  # a pattern on its screen when it can take a prompt
    enter: str = "\r"  # the key that sends the text
    leave: tuple[str, ...] = ()  # what a user types to end it, each followed by `enter`


def recipe_for(adapter: str) -> Recipe:
    """Return the recipe of this adapter. Raises Unsupported if there is none."""
    module = f"agentctl.rehearsal.recipes.{adapter.replace('-', '_')}"
    try:
        recipe: Recipe = __import__(module, fromlist=["RECIPE"]).RECIPE
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise Unsupported(adapter, "there is no recipe to rehearse it") from None
    return recipe


def make_environment(recipe: Recipe, place: Place, path: str) -> dict[str, str]:
    """Return the whole environment of the agent: nothing of ours gets into it."""
    os.makedirs(os.path.join(place.home, "tmp"), exist_ok=True)
    private = {"HOME": place.home, "TMPDIR": os.path.join(place.home, "tmp"), "PATH": path}
    return {**COMMON, **private, **recipe.furnish(place)}


def write_file(place: Place, name: str, text: str) -> str:
    """Write a file in the private home. Return its path."""
    path = os.path.join(place.home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path
