"""Slots: the agents of one group, each with its model, its name and its branch. Named on the command
line in pairs, or in a matrix file (`matrix.py`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from agentctl.errors import UsageError

BRANCH = "agentctl/{group}/{slot}"
FIELDS = ("group", "slot", "adapter", "model")
MOST = 100  # agents of one group: each is a process, and most have a worktree


class Slot(NamedTuple):
    """None, and nothing in a list: as the whole group has it."""

    adapter: str | None = None  # None: the default one
    model: str | None = None  # None: the agent's own default
    name: str | None = None  # `slots` gives one to each
    branch: str | None = None  # may name FIELDS in braces; `slots` fills them in
    prompt: str | None = None
    permission_mode: str | None = None
    args: tuple[str, ...] = ()  # words for the agent itself
    env: tuple[tuple[str, str], ...] = ()


def slots_of_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[Slot, ...]:
    """From `--adapter A` and `--model M` in the order in which they were given, as ("adapter", A) and
    ("model", M). Each adapter opens a slot and the models after it are its own; several models are
    several slots. With one adapter, or none, the order does not matter."""
    adapters = [value for kind, value in pairs if kind == "adapter"]
    if len(adapters) <= 1:
        models = [value for kind, value in pairs if kind == "model"]
        return _times(Slot(adapters[0] if adapters else None), models)
    if pairs[0][0] == "model":
        raise UsageError(
            f"which agent is --model {pairs[0][1]} for?",
            "with several, --model comes after its --adapter",
        )
    found: list[Slot] = []
    models = []
    for kind, value in reversed(pairs):
        if kind == "model":
            models.insert(0, value)
        else:
            found[:0] = _times(Slot(value), models)
            models = []
    return tuple(found)


def _times(slot: Slot, models: Iterable[str]) -> tuple[Slot, ...]:
    return tuple(slot._replace(model=model) for model in models) or (slot,)


def slots(given: Sequence[Slot], group: str, branch: str | None = None) -> tuple[Slot, ...]:
    """The same, each with a name of its own and the branch that it is going to work on, by its own
    template, the group's, or ours. No two have the same."""
    named = _named(given)
    made = [slot._replace(branch=fill(slot.branch or branch or BRANCH, slot, group)) for slot in named]
    return tuple(
        slot._replace(branch=unique)
        for slot, unique in zip(made, _unique([slot.branch or "" for slot in made]), strict=True)
    )


def fill(template: str, slot: Slot, group: str) -> str:
    """A branch name out of a template. Raises UsageError for a field that there is not."""
    values = {"group": group, "slot": slot.name, "adapter": slot.adapter, "model": slot.model}

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            known = ", ".join(f"{{{field}}}" for field in FIELDS)
            raise UsageError(f"branch {template!r}: no field {{{name}}}", f"known: {known}")
        return plain(values[name] or "default")

    return re.sub(r"\{([^{}]*)\}", value, template)


def plain(text: str) -> str:
    """A part of a branch's name, of a folder's, of a word to type: nothing that git or a shell takes
    amiss (git help check-ref-format)."""
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    found = re.sub(r"\.\.+", ".", found).strip("-.")
    while found.endswith(".lock"):
        found = found.removesuffix(".lock").rstrip("-.")
    return found or "x"


def _named(given: Sequence[Slot]) -> list[Slot]:
    """By model where that tells them apart; by agent where some have none and that does; by both."""
    models = Counter(slot.model for slot in given)
    unnamed = [slot for slot in given if not slot.name]
    distinct = len({slot.adapter for slot in unnamed}) == len(unnamed)
    if distinct and any(slot.model is None for slot in unnamed):
        names = [slot.name or plain(slot.adapter or "default") for slot in given]
    else:
        names = [slot.name or _name(slot, alone=models[slot.model] == 1) for slot in given]
    return [slot._replace(name=name) for slot, name in zip(given, _unique(names), strict=True)]


def _name(slot: Slot, *, alone: bool) -> str:
    if slot.model is None:
        return plain(slot.adapter or "default")
    return plain(slot.model if alone else f"{slot.adapter or 'default'}-{slot.model}")


def _unique(names: Sequence[str]) -> list[str]:
    """Those that come twice get numbers; a number that is somebody's name already is left out. A name
    that differs in case only is no other name: file systems may think so."""
    often = Counter(name.casefold() for name in names)
    taken = {name.casefold() for name in names if often[name.casefold()] == 1}
    found = []
    for name in names:
        new = name
        if often[name.casefold()] > 1:
            new = next(n for i in count(1) if (n := f"{name}-{i}").casefold() not in taken)
        taken.add(new.casefold())
        found.append(new)
    return found
