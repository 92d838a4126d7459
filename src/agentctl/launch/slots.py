"""Slots: the members of one group, each with its agent, model, name and branch. They come from pairs on
the command line or from a matrix file (`matrix.py`)."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count

from agentctl.errors import UsageError
from agentctl.light_typing import Iterable, NamedTuple, Sequence

BRANCH = "agentctl/{group}/{slot}"
FIELDS = ("group", "slot", "adapter", "model")
MOST = 100  # slots of one group: each is a process, and most have a worktree


class Slot(NamedTuple):
    """None, and an empty tuple: as the whole group has it."""

    adapter: str | None = None  # None: the default adapter
    model: str | None = None  # None: the agent's own default
    name: str | None = None  # `name_slots` gives each slot one
    branch: str | None = None  # a template with FIELDS in braces; `name_slots` fills them in
    prompt: str | None = None
    permission_mode: str | None = None
    args: tuple[str, ...] = ()  # words for the agent itself
    env: tuple[tuple[str, str], ...] = ()


def make_slots(pairs: Sequence[tuple[str, str]]) -> tuple[Slot, ...]:
    """Return the slots of `--adapter A` and `--model M`, given in order as ("adapter", A), ("model", M).
    Each adapter opens a slot, and each model after it makes one. With at most one adapter, the order
    does not matter. Raises UsageError."""
    adapters = [value for kind, value in pairs if kind == "adapter"]
    if len(adapters) <= 1:
        models = [value for kind, value in pairs if kind == "model"]
        return _multiply(Slot(adapters[0] if adapters else None), models)
    if pairs[0][0] == "model":
        raise UsageError(
            f"--model {pairs[0][1]} has no --adapter before it",
            "with several agents, give --model after its --adapter",
        )
    slots: list[Slot] = []
    models = []
    for kind, value in reversed(pairs):
        if kind == "model":
            models.insert(0, value)
        else:
            slots[:0] = _multiply(Slot(value), models)
            models = []
    return tuple(slots)


def _multiply(slot: Slot, models: Iterable[str]) -> tuple[Slot, ...]:
    return tuple(slot._replace(model=model) for model in models) or (slot,)


def name_slots(slots: Sequence[Slot], group: str, template: str | None = None) -> tuple[Slot, ...]:
    """Return the slots, each with a unique name and a unique branch: by its own template, that of the
    group, or ours. Raises UsageError for a field that does not exist."""
    with_names = _with_names(slots)
    branches = [fill_template(slot.branch or template or BRANCH, slot, group) for slot in with_names]
    return tuple(
        slot._replace(branch=branch)
        for slot, branch in zip(with_names, _make_unique(branches), strict=True)
    )


def fill_template(template: str, slot: Slot, group: str) -> str:
    """Return the name of a branch. Raises UsageError for a field that does not exist."""
    values = {"group": group, "slot": slot.name, "adapter": slot.adapter, "model": slot.model}

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            names = ", ".join(f"{{{field}}}" for field in FIELDS)
            raise UsageError(f"branch {template!r}: no field {{{name}}}", f"known: {names}")
        return make_plain(values[name] or "default")

    return re.sub(r"\{([^{}]*)\}", value, template)


def make_plain(text: str) -> str:
    """Return the text as a part of a branch or folder name, without characters that are special to git
    (git help check-ref-format) or to a shell."""
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    word = re.sub(r"\.\.+", ".", word).strip("-.")
    while word.endswith(".lock"):
        word = word.removesuffix(".lock").rstrip("-.")
    return word or "x"


def _with_names(slots: Sequence[Slot]) -> list[Slot]:
    """Name each slot by its model if models are unique, by its agent if some slots have no model and
    agents are unique, else by both."""
    models = Counter(slot.model for slot in slots)
    unnamed = [slot for slot in slots if not slot.name]
    has_unique_agents = len({slot.adapter for slot in unnamed}) == len(unnamed)
    if has_unique_agents and any(slot.model is None for slot in unnamed):
        names = [slot.name or make_plain(slot.adapter or "default") for slot in slots]
    else:
        names = [slot.name or _choose_name(slot, models[slot.model]) for slot in slots]
    return [slot._replace(name=name) for slot, name in zip(slots, _make_unique(names), strict=True)]


def _choose_name(slot: Slot, slots_of_model: int) -> str:
    if slot.model is None:
        return make_plain(slot.adapter or "default")
    return make_plain(slot.model if slots_of_model == 1 else f"{slot.adapter or 'default'}-{slot.model}")


def _make_unique(names: Sequence[str]) -> list[str]:
    """Add numbers to names that occur twice, and skip a number that makes another slot's name. Names
    that differ only in case count as the same: on some file systems they are."""
    counts = Counter(name.casefold() for name in names)
    used = {name.casefold() for name in names if counts[name.casefold()] == 1}
    unique = []
    for name in names:
        new = name
        if counts[name.casefold()] > 1:
            new = next(n for i in count(1) if (n := f"{name}-{i}").casefold() not in used)
        used.add(new.casefold())
        unique.append(new)
    return unique
