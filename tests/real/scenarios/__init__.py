"""What the real agents play. Each agent's module has `PLAYS` (title to play) and `CANNOT` (title
to the reason why there is no such thing); together they cover `TITLES`. docs/scenarios.md is made of it.

A play gets a `Lab` and does things to actors; what it declares is checked by a test and sampled by the
benchmark. So a play asserts little itself, and never sleeps to make something true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.real.lab import Lab

Play = Callable[["Lab"], None]

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL")
TITLES = (
    "start",
    "first answer",
    "long stream",
    "silent thinking",
    "tool running",
    "permission asked",
    "permission granted",
    "permission denied",
    "question asked",
    "idle",
    "Esc interrupt",
    "API error",
    "retry with back-off",
    "model server gone",
    *(f"{name} while streaming" for name in SIGNALS),
    *(f"{name} while a tool runs" for name in SIGNALS),
    "resume headless",
    "resume in the TUI",
    "fork",
    "new session in place",
    "sub-agent after the main turn",
    "background shell",
    "two sessions in one directory",
    "three sessions in one directory",
    "parallel starts",
    "resumed from another directory",
    "started from another agent's shell",
    "wrapper killed, agent alive",
    "daemon's client quits, work goes on",
    "native background session killed and respawned",
    "200 KB prompt",
    "stale records, pid now another agent's",
    "terminal closed",
    "binary upgraded under a live process",
    "state directory deleted",
    "agentctl daemon killed",
)


class Repertoire(NamedTuple):
    """All that is played with one agent, and what cannot be."""

    agent: str
    plays: Mapping[str, Play]
    cannot: Mapping[str, str]


def repertoire(agent: str) -> Repertoire:
    """By its name in versions.json: an old version may play less than the new one."""
    module = import_module(f"tests.real.scenarios.{agent.replace('-', '_')}")
    return Repertoire(agent, module.PLAYS, module.CANNOT)
