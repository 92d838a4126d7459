"""What the benchmark samples: a command, and how its words are read as the five states.

Every tool is read in its favour. A state it has no word for is no mistake, and one that lists only what
lives has said nothing about the dead by leaving them out. What it does say of a session counts.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

LIVE = frozenset({"running", "waiting", "idle"})


class Row(NamedTuple):
    pid: int | None  # of the agent's process, where the tool states it; None: not stated, or a guess
    session_id: str | None
    status: str  # running, waiting, idle, stopped or unknown
    word: str  # the tool's own word, for the report
    reason: str = ""  # of unknown: why
    alive: bool = False  # of unknown: it does say that it lives, but not what it does

    @property
    def lives(self) -> bool:
        """Whether the tool shows it as alive."""
        return self.alive or self.status in LIVE


class Tool(Protocol):
    name: str
    version: str
    agents: frozenset[str]  # the adapters' names of those it claims to cover
    states: frozenset[str]  # all it has a word for, of whichever agent

    def states_of(self, agent: str) -> frozenset[str]:
        """What it has a word for of this agent: some know more of one than of another."""

    def command(self) -> list[str]: ...

    def rows(self, stdout: str, returncode: int) -> list[Row]:
        """Raises ValueError for an answer that cannot be read."""


def available(names: Collection[str] | None = None) -> list[Tool]:
    """Those that are installed, ours first; with names, only these. `registry.absent` has the others."""
    from tests.real.accuracy.tools import registry  # which imports the readers, and they this

    return [tool for tool in registry.present() if not names or tool.name in names]
