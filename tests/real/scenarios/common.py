"""Plays that most agents can do alike. What differs, an agent's own module overrides."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.real.scenarios import SIGNALS, Play

if TYPE_CHECKING:
    from tests.real.lab import Lab

# Not `sleep 600`: Claude Code's shell tool refuses to run that alone.
LONG_TOOL = "python3 -c 'import time; time.sleep(600)'"


def start(lab: Lab) -> None:
    """Nothing but the prompt on the screen."""
    lab.tui().is_now("idle")


def first_answer(lab: Lab) -> None:
    """A turn of its own, headless: it works, it answers, it ends."""
    actor = lab.headless("[[gate=%]] hello")
    actor.is_held()
    actor.opens()
    actor.is_gone(outcome="completed")


def long_stream(lab: Lab) -> None:
    actor = lab.tui()
    actor.says("[[gate=%]] count")
    actor.is_held()
    actor.opens()
    actor.has_answer()


def silent_thinking(lab: Lab) -> None:
    """Neither a byte from the model nor a byte on disk."""
    actor = lab.tui()
    actor.says("[[mute=%]] think")
    actor.is_held()
    actor.opens()
    actor.has_answer()


def killed_while_streaming(lab: Lab, name: str, outcome: str) -> None:
    actor = lab.headless("[[gate=%]] count")
    actor.is_held()
    actor.signal(signal.Signals[name])
    actor.is_gone(outcome=outcome)


def by_each_signal(
    title: str, play: Callable[[Lab, str, str], None], outcomes: dict[str, str]
) -> dict[str, Play]:
    """One play per signal; `outcomes`: what the agent's own records then say of the session."""

    def one(name: str) -> Play:
        return lambda lab: play(lab, name, outcomes[name])

    return {f"{name} {title}": one(name) for name in SIGNALS}
