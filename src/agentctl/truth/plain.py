"""Facts as plain values, and back: what a `Memory` keeps of them."""

from __future__ import annotations

from typing import Any

from agentctl.truth.model import Facts, Tokens, Turn

Said = tuple[Any, ...]

_new = tuple.__new__  # half the time of Facts(…), whose __new__ is a Python function

# Thousands of sessions share a few directories, models and words. One object for each is written
# once and read back once.
_SAME: dict[Any, Any] = {}


def pack(facts: Facts) -> Said:
    cwd, model, title, prompt, began, last, tokens, cost, entry, version, parent, turn, garbled = facts
    tokens_said = None if tokens is None else tuple(tokens)
    turn_said = None if turn is None else tuple(map(_same, turn))
    cwd, model, entry, version = map(_same, (cwd, model, entry, version))
    return (
        cwd, model, title, prompt, began, last, tokens_said, cost, entry, version, parent, turn_said,
        garbled,
    )  # fmt: skip


def _same(value: Any) -> Any:
    return _SAME.setdefault(value, value) if type(value) is str else value


def unpack(said: Said) -> Facts:
    """Raises TypeError or ValueError for what is not of `pack`."""
    cwd, model, title, prompt, began, last, tokens, cost, entry, version, parent, turn, garbled = said
    if tokens is not None:
        _, _, _, _ = tokens
        tokens = _new(Tokens, tokens)
    if turn is not None:
        _, _, _, _, _ = turn
        turn = _new(Turn, turn)
    known = (cwd, model, title, prompt, began, last, tokens, cost, entry, version, parent, turn, garbled)
    return _new(Facts, known)
