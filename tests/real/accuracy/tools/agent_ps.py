"""agent-ps: a process table of eight agents, all four of ours among them.

Claude Code by its registry; the others by whose turn it is in the newest session of the process's
directory. It marks that as a guess (`attach`): its word on the session is taken, the process is not.
With `--all` it lists what has ended.
    kind ended     stopped, whatever the last turn looks like
    busy           running     for Codex, OpenCode and Pi it has no word for waiting
    waiting        waiting     Claude Code alone
    idle           idle
    shell          idle        Claude Code's word: the turn is over, a shell in the background is left
    no word        unknown     a process for which it found no session
Daemons and warm spares without a session are left out. `ps` must be on PATH.
"""

from __future__ import annotations

import json
from typing import Any

from tests.real.accuracy.fetch import Pin
from tests.real.accuracy.tools import Row

NAMES = {"claude": "claude-code", "codex": "codex", "opencode": "opencode", "pi": "pi"}
WORDS = {"busy": "running", "waiting": "waiting", "idle": "idle", "shell": "idle"}
TURNS = frozenset({"running", "idle", "stopped", "unknown"})
CERTAIN = "pid"  # how it says that a session was recorded for this process, not guessed by directory
MANY = "200"  # more ended sessions than that it does not look at


class AgentPs:
    agents = frozenset(NAMES.values())
    states = TURNS | {"waiting"}

    def __init__(self, pin: Pin) -> None:
        self.name, self.version = pin.name, pin.version
        self._program = str(pin.commands / "agent-ps")

    def states_of(self, agent: str) -> frozenset[str]:
        if agent not in self.agents:
            return frozenset()
        return self.states if agent == "claude-code" else TURNS

    def command(self) -> list[str]:
        return [self._program, "list", "--json", "--all", "--limit", MANY]

    def rows(self, stdout: str, returncode: int) -> list[Row]:
        if returncode != 0:
            raise ValueError(f"{self.name} ended with {returncode}")
        listed = [row for row in json.loads(stdout) if row["agent"] in NAMES]
        return [_row(row) for row in listed if row["session_id"] or not row["background"]]


def _row(row: dict[str, Any]) -> Row:
    session_id = row["session_id"] or None
    if row["kind"] == "ended":
        return Row(pid=None, session_id=session_id, status="stopped", word="ended")
    word = row["status"]
    status = WORDS.get(word, "unknown")
    pid = row["pid"] if session_id is None or row["attach"] == CERTAIN else None
    reason = ""
    if status == "unknown":
        reason = f"it shows {word}" if word else "it found no session, or no turn in it"
    return Row(pid=pid, session_id=session_id, status=status, word=word or "-", reason=reason)
